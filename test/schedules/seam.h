#pragma once

// Included before each source that runs under the scheduler (-include): replacements for processor instructions.

extern "C" {
void penstock_schedule_pause();
bool penstock_planted(int fault);
}
#define __builtin_ia32_pause penstock_schedule_pause
