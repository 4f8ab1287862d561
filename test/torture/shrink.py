"""Makes a failing trial smaller as long as it fails: fewer faults, a smaller input, an earlier call."""

import dataclasses

from trial import Trial, run_trial

TRIES = 2  # a race may need more than one run to show


def smaller(trial):
    for fault in trial.faults:
        yield dataclasses.replace(trial, faults=tuple(other for other in trial.faults if other is not fault))
    sizes = trial.operation.sizes
    for size in sizes[:sizes.index(trial.size)]:
        yield dataclasses.replace(trial, size=size)
    for at, fault in enumerate(trial.faults):
        # Faults from some call on, and those at the start, have no earlier call.
        if not fault.call or fault.on or fault.number <= 1:
            continue
        for number in dict.fromkeys((1, fault.number // 2, fault.number - 1)):
            earlier = dataclasses.replace(fault, number=max(number, 1))
            yield dataclasses.replace(trial, faults=(*trial.faults[:at], earlier, *trial.faults[at + 1:]))


def shrink(stage, trial, tell=lambda trial, problem: None):
    """Returns the smallest failing trial and its error; None if it does not fail again."""
    problem = fails(stage, trial)
    if not problem:
        return trial, None
    seen = {str(trial)}
    while True:
        for candidate in smaller(trial):
            if str(candidate) in seen:
                continue
            seen.add(str(candidate))
            found = fails(stage, candidate)
            if found:
                trial, problem = candidate, found
                tell(trial, problem)
                break
        else:
            return trial, problem


def fails(stage, trial: Trial):
    for _ in range(TRIES):
        problem = run_trial(stage, trial).problem
        if problem:
            return problem
    return ""
