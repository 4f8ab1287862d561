"""Power cuts of one operation: records its run, and opens each image."""

import os
import time

import summary
from power_cut import PowerCuts
from recorder import Recorder
from trial import OLD, Judge, Place, Run, Trial, digest

WORD = "power-cut="


def variants(operation):
    """Files under the names of the outputs before the run."""
    return ("new",) if operation.in_place or operation.alone else ("new", "old")


def name_of(operation, size, variant, image):
    return f"{operation.name}/{size} {WORD}{variant}:{image.told}"


class Cuts:
    """The power cuts of a run that is recorded in its own folder. `forgets(step)`: whether the recording omits the step."""

    def __init__(self, stage, operation, size, variant, forgets=lambda step: False):
        before = stage.undisturbed(operation, size)
        self.place = place = Place(stage, Trial(operation, size))
        try:
            place.prepare()
            for path in place.outputs if not operation.in_place else ():
                path.write_bytes(OLD) if variant == "old" else path.unlink(missing_ok=True)
            place.before = [digest(path) for path in place.outputs]
            keep = None
            if operation.resumes:
                keep = stage.folder / f"keep-{next(stage.numbers)}"
                keep.mkdir()
            recorder = Recorder(place, keep)
            ended, recording = recorder.record()
            self.problem = before.problem or Judge(place, recorder, ended, []).problem() or recording.problem
            if not ended.code == 0:
                self.problem = self.problem or f"exit code {ended.code}"
            self.model = PowerCuts(recording)
            self.problem = self.problem or self.differs(self.model.last())
            recording.steps[:] = [step for step in recording.steps if not forgets(step)]
            self.model = PowerCuts(recording)
        except BaseException:
            place.closing.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.place.closing.close()

    def differs(self, image):
        """The difference between the recording's final image and the files; the recording is complete if there is none."""
        folder = self.place.folder
        names = {path for path, _ in image.names}
        there = {os.path.relpath(os.path.join(at, name), folder) for root in Recorder.roots for at, folders, files in os.walk(folder / root)
                 for name in ("", *folders, *files)}
        there = {os.path.normpath(path) for path in there}
        if names != there:
            return f"the recording lacks something: {sorted(names ^ there)}"
        for path, content in ((path, self.model.content(image, path)) for path, what in image.names if what != -1):
            if content != (folder / path).read_bytes():
                return f"the recording lacks something of {path}"
        return ""

    def trials(self, wanted=None, again=True, **bounds):
        """Yields (image, its error), for all images or the wanted one. `again`: runs the command again on each."""
        for point, image in self.model.images(**bounds):
            if wanted is None or image.told == wanted:
                self.model.make(image, self.place.folder)
                yield image, self.wrong(point) or (self.wrong_again() if again else "")

    def wrong(self, point):
        place, known = self.place, self.place.stage.known(self.place.trial.operation, self.place.trial.size)
        over = point == len(self.model.steps)
        for path, old, new, size in zip(place.outputs, place.before, known.digests, known.lengths):
            # For a file that was extended ahead of its writes, the size is enough.
            found = digest(path) if not path.exists() or path.stat().st_size <= max(size, place.inputs[0].stat().st_size + 1) else "longer"
            if found != new and (over or found != old):
                return f"{path.name} is not the new one, behind exit code 0" if over else f"{path.name} is neither the old nor the new one"
        return ""

    def wrong_again(self):
        run = Run(self.place, [])
        ended = run.go()
        problem = Judge(self.place, run, ended, []).problem(again=True)
        if problem or ended.code != 0:
            return f"run again: {problem or ended.message}"
        return ""


def rows(stage, operation, size, variant, **bounds):
    """Yields a line of the log for each image."""
    with Cuts(stage, operation, size, variant) as cuts:
        if cuts.problem:
            yield summary.Row("-", f"{operation.name}/{size} {WORD}{variant}:undisturbed:0:0", "failed", 0, True, cuts.problem)
            return
        start = time.monotonic()
        for image, problem in cuts.trials(**bounds):
            now = time.monotonic()
            name, result = name_of(operation, size, variant, image), "failed" if problem else "finished"
            yield summary.Row("-", name, result, now - start, True, problem)
            start = now
