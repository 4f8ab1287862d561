"""The images that a disk may have if the power fails at some point of a recorded run (recorder.py).

The system promises little. A sync of a file (fsync, fdatasync) brings earlier writes and the size to the disk; a sync of a folder
brings changes of its names. All other changes are pending, and any part of them may be there or not:

- each page of a file may have any state since the last sync of the file; a page may be torn, at a sector, between two of them;
- the file's size may have any state since then: a size ahead of the data gives zeros;
- pending changes of names are there up to any one of them ("ordered", as with ext4, XFS and btrfs), or in any selection ("any",
  which no standard forbids).

So the images at a point of the run are a product of choices, and those at a sync include those of all points since the sync before. If
there are few choices all of them are made; otherwise those that are likely to hurt, and some that are drawn from a seed.
"""

import bisect
import dataclasses
import itertools
import os
import pathlib
import random
import shutil

from recorder import FOLDER

PAGE = 4096
SECTOR = 512
ORDERED, ANY = "ordered", "any"
NEVER = -1  # the step before the first
ZEROS = bytes(PAGE)


class History:
    """All states of a file: those of each page and of its size, after some steps."""

    def __init__(self, data=b""):
        self.sizes = [(NEVER, len(data))]
        self.pages = {at // PAGE: [(NEVER, data[at:at + PAGE].ljust(PAGE, b"\0"))] for at in range(0, len(data), PAGE)}
        self.syncs = [NEVER]
        self.steps = []  # steps that change it

    def page(self, number):
        return self.pages.setdefault(number, [(NEVER, ZEROS)])

    def fill(self, number, at, data):
        end, begin = at + len(data), at
        while begin < end:
            page = self.page(begin // PAGE)
            here = begin % PAGE
            part = data[begin - at:begin - at + PAGE - here]
            old = page[-1][1]
            page.append((number, old[:here] + part + old[here + len(part):]))
            begin += len(part)

    def clear(self, number, begin, end):
        for page in [page for page in self.pages if begin < (page + 1) * PAGE and page * PAGE < end]:
            here = max(begin, page * PAGE)
            self.fill(number, here, bytes(min(end, (page + 1) * PAGE) - here))

    def apply(self, number, step):
        size = end = self.sizes[-1][1]
        if step.kind == "write":
            self.fill(number, step.at, step.data)
            end = max(size, step.at + len(step.data))
        elif step.kind == "punch":
            self.clear(number, step.at, min(step.at + step.size, size))
        elif step.kind == "grow":
            end = max(size, step.size)
        else:
            end = step.size
            if end < size:
                self.clear(number, end, size)
        if end != size:
            self.sizes.append((number, end))
        self.steps.append(number)

    def candidates(self, low, high):
        """The possible states of a file whose steps up to `low` are on the disk, and those from `high` on not done: the steps after
        which each page, and the size, may be."""
        def between(states):
            begin = bisect.bisect_right(states, low, key=lambda state: state[0]) - 1
            return [number for number, _ in states[begin:bisect.bisect_left(states, high, key=lambda state: state[0])]]
        return {page: between(states) for page, states in self.pages.items()}, between(self.sizes)

    def synced(self, point):
        """The last step that a sync before `point` brought to the disk, with all steps before it."""
        return self.syncs[bisect.bisect_left(self.syncs, point) - 1]


def state_at(states, number):
    """The last state up to that step."""
    return states[bisect.bisect_right(states, number, key=lambda state: state[0]) - 1]


@dataclasses.dataclass(frozen=True)
class FileImage:
    file: int
    size: int
    pages: tuple  # (page, step), or (page, step, sector, another step) for a page torn there

    def content(self, history, into):
        """Writes the contents to an open file."""
        os.ftruncate(into, self.size)
        for page, number, *torn in self.pages:
            data = state_at(history.pages[page], number)[1]
            if torn:
                data = data[:torn[0]] + state_at(history.pages[page], torn[1])[1][torn[0]:]
            data = data[:max(0, self.size - page * PAGE)]
            if data.strip(b"\0"):
                os.pwrite(into, data, page * PAGE)


@dataclasses.dataclass(frozen=True)
class Image:
    """The contents of the disk: a FileImage, or FOLDER, for each path."""
    names: tuple  # (path, FileImage or FOLDER), in order
    told: str = dataclasses.field(compare=False, default="")


class Choice:
    """The pending steps that are on the disk."""

    def __init__(self, names, files, size="follows", rng=None):
        self.names, self.files, self.size, self.rng = names, files, size, rng

    def of(self, history, file, low, high, candidates):
        rng, found = self.rng, []
        pages, sizes = candidates
        for page in sorted(pages):
            numbers = pages[page]
            if len(numbers) == 1:
                found.append((page, numbers[0]))
            elif rng is None:
                # A step on a page implies the earlier steps on it.
                found.append((page, max((number for number in numbers if number in self.files), default=numbers[0])))
            elif rng.random() < 0.2:
                found.append((page, rng.choice(numbers), rng.randrange(SECTOR, PAGE, SECTOR), rng.choice(numbers)))
            else:
                found.append((page, rng.choice(numbers)))
        if rng is not None:
            size = rng.choice(sizes)
        elif self.size == "first":
            size = sizes[-1]
        else:
            size = max((number for number in history.steps if low < number < high and number in self.files), default=low)
        size = state_at(history.sizes, size)[1]
        return FileImage(file, size, tuple(entry for entry in found if entry[0] * PAGE < size))


class PowerCuts:
    def __init__(self, recording):
        self.recording = recording
        self.steps = recording.steps
        self.files = {file: History(data) for file, data in recording.files.items()}
        self.folder_syncs = []  # (step, path)
        self.changes = []  # steps that change names
        self.known = (NEVER, {})  # the candidates of each file at a point
        for number, step in enumerate(self.steps):
            if step.kind in ("write", "size", "grow", "punch"):
                self.files.setdefault(step.file, History()).apply(number, step)
            elif step.kind == "sync":
                self.files.setdefault(step.file, History()).syncs.append(number)
            elif step.kind == "sync-folder":
                self.folder_syncs.append((number, step.path))
            elif step.kind == "sync-all":
                for history in self.files.values():
                    history.syncs.append(number)
            else:
                self.changes.append(number)
                self.files.setdefault(step.file, History())

    @property
    def points(self):
        """The points that include all others: before each sync, and the end."""
        return [number for number, step in enumerate(self.steps) if step.kind.startswith("sync")] + [len(self.steps)]

    # ---- pending steps

    def is_on_disk(self, change, point):
        folders = self.steps[change].names
        return any(change < number < point and (path in folders) for number, path in self.folder_syncs) or any(
            self.steps[number].kind == "sync-all" for number in range(change, point))

    def pending_names(self, point, model):
        """Changes of names before the point: those on the disk, and those pending."""
        before = [change for change in self.changes if change < point]
        done = {change for change in before if self.is_on_disk(change, point)}
        if model == ORDERED:
            done = set(before[:1 + max((before.index(change) for change in done), default=-1)])
        return done, [change for change in before if change not in done]

    def pending_writes(self, point, visible):
        return sorted(number for file in visible for number in self.files[file].steps if self.files[file].synced(point) < number < point)

    # ---- images

    def namespace(self, changes):
        names = dict(self.recording.names)
        for number in sorted(changes):
            step = self.steps[number]
            if step.kind == "folder":
                names[step.path] = FOLDER
            elif step.kind == "link":
                names[step.path] = step.file
            elif step.kind == "move" and step.path in names:
                names[step.to] = names.pop(step.path)
            elif step.kind == "unlink" and not any(os.path.dirname(name) == step.path for name in names):
                names.pop(step.path, None)
        found = {}
        for path in sorted(names):
            if "/" not in path or found.get(os.path.dirname(path)) == FOLDER:
                found[path] = names[path]
        return found

    def image(self, point, model, choice, told):
        done, _ = self.pending_names(point, model)
        names = self.namespace(done | set(choice.names))
        return Image(tuple((path, file if file == FOLDER else self.file_image(file, point, choice)) for path, file in names.items()),
                     f"{model}:{point}:{told}")

    def file_image(self, file, point, choice):
        history = self.files[file]
        low = history.synced(point)
        if self.known[0] != point:
            self.known = (point, {})
        if file not in self.known[1]:
            self.known[1][file] = history.candidates(low, point)
        return choice.of(history, file, low, point, self.known[1][file])

    def choices(self, point, model, pending_max, draws, seed):
        """Yields choices, each with a word that identifies it."""
        rng = random.Random(f"{seed} {model} {point}")
        _, names = self.pending_names(point, model)
        visible = {file for chosen in (names, ()) for file in self.namespace(self.pending_names(point, model)[0] | set(chosen)).values()}
        visible |= {self.steps[change].file for change in names}
        writes = self.pending_writes(point, (visible - {FOLDER}) & set(self.files))
        some_names = [names[:count] for count in range(len(names) + 1)]
        if len(names) + len(writes) <= pending_max:
            if model == ANY:
                some_names = subsets(names)
            for number, (chosen, picked) in enumerate(itertools.product(some_names, subsets(writes))):
                for size in ("follows", "first"):
                    yield Choice(chosen, set(picked), size), f"{size}-{number}"
        else:
            both = sorted(names + writes)

            def some(things):
                return things if len(things) <= draws else sorted(rng.sample(things, draws))
            for size in ("follows", "first"):
                # Steps in order up to some point; names before data, data before names; one step alone, or all but one.
                for before in {0, len(both), *some(range(len(both)))}:
                    yield Choice([n for n in names if n in both[:before]], set(both[:before]), size), f"{size}-up-to-{before}"
                yield Choice(names, set(), size), f"{size}-names"
                yield Choice([], set(writes), size), f"{size}-writes"
                for one in some(writes):
                    yield Choice(names, {one}, size), f"{size}-with-{one}"
                    yield Choice(names, set(writes) - {one}, size), f"{size}-without-{one}"
                for one in some(names) if model == ANY else ():
                    yield Choice([one], set(writes), size), f"{size}-name-{one}"
                    yield Choice([n for n in names if n != one], set(writes), size), f"{size}-no-name-{one}"
        for number in range(draws):
            rng = random.Random(f"{seed} {model} {point} {number}")
            chosen = rng.choice(some_names) if model == ORDERED else [name for name in names if rng.random() < 0.5]
            if number % 2:
                yield Choice(chosen, set(), rng=rng), f"drawn-{number}"
            else:
                share = rng.choice((0.2, 0.5, 0.8))
                yield Choice(chosen, {one for one in writes if rng.random() < share}, rng.choice(("follows", "first"))), f"drawn-{number}"

    def images(self, models=(ORDERED, ANY), pending_max=8, draws=8, seed=1, share=1.0, points=None):
        """Yields (point, image); the same image at most once before the end and once at it."""
        seen = set()
        for point in self.points if points is None else points:
            for model in models:
                for choice, told in self.choices(point, model, pending_max, draws, seed):
                    if share < 1 and random.Random(f"{seed} {model}:{point}:{told}").random() >= share:
                        continue
                    image = self.image(point, model, choice, told)
                    key = hash((image, point == len(self.steps)))  # a set of whole images would be too large
                    if key not in seen:
                        seen.add(key)
                        yield point, image

    def last(self):
        """The image with all steps on the disk."""
        return self.image(len(self.steps), ANY, Choice(self.changes, set(range(len(self.steps)))), "all")

    # ---- writing images

    def make(self, image, folder):
        """Writes the files and folders of the image, in place of existing ones."""
        folder = pathlib.Path(folder)
        for root in {path.partition("/")[0] for path in self.recording.names}:
            for inside in (folder / root).iterdir():
                shutil.rmtree(inside) if inside.is_dir() and not inside.is_symlink() else inside.unlink()
        for path, what in image.names:
            if what == FOLDER:
                (folder / path).mkdir(0o700, exist_ok=True)
                continue
            kept = self.recording.keeps.get(what.file)
            descriptor = os.open(kept or folder / path, os.O_RDWR | (0 if kept else os.O_CREAT | os.O_EXCL), 0o600)
            try:
                os.ftruncate(descriptor, 0)
                what.content(self.files[what.file], descriptor)
            finally:
                os.close(descriptor)
            if kept:
                os.link(kept, folder / path)

    def content(self, image, path):
        """The contents of one file; None if it does not exist."""
        what = dict(image.names).get(path)
        if what is None:
            return None
        descriptor = os.memfd_create("image")
        with open(descriptor, "rb") as file:
            what.content(self.files[what.file], descriptor)
            return file.read()


def subsets(things):
    return [[thing for bit, thing in enumerate(things) if chosen >> bit & 1] for chosen in range(1 << len(things))]
