#pragma once

// In front of each source that runs under the scheduler (-include): what it calls in place of the processor.

extern "C" {
void penstock_schedule_pause();
bool penstock_planted(int fault);
}
#define __builtin_ia32_pause penstock_schedule_pause
