"""A server of S3 on this machine, for tests: moto's, with requests that are refused or delayed."""

import logging
import os
import threading
from dataclasses import dataclass, field

import numpy as np

ACCESS_DENIED = b"<Error><Code>AccessDenied</Code><Message>refused by a test</Message></Error>"


@dataclass
class Held:
    request: str
    reached: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


class Store:
    """A server of S3. `refused` has requests that are refused once: "PUT part-00003.u64" matches names with this end, "PUT x?partNumber=2" queries
    with this beginning."""

    @classmethod
    def start(cls):
        """Returns None if the server is not installed."""
        try:
            import s3fs  # noqa: F401
            from moto.server import ThreadedMotoServer
        except ImportError:
            return None
        return cls(ThreadedMotoServer("127.0.0.1", port=0, verbose=False))

    def __init__(self, server):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs every request
        server.start()
        self.server = server
        self.refused, self.held = [], []
        self.lock = threading.Lock()
        self.answer, server._server.app = server._server.app, self
        host, port = server.get_host_and_port()
        # Settings of every process that starts later.
        self.told = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "penstock", "AWS_SECRET_ACCESS_KEY": "penstock",
                     "AWS_DEFAULT_REGION": "us-east-1"}
        os.environ.update(self.told)

    def stop(self):
        for name in self.told:
            del os.environ[name]
        self.server.stop()

    def __call__(self, environ, start_response):
        def is_it(request):
            method, _, rest = request.partition(" ")
            name, _, query = rest.partition("?")
            return (method == environ["REQUEST_METHOD"] and environ["PATH_INFO"].endswith(name)
                    and any(word.startswith(query) for word in environ["QUERY_STRING"].split("&")))

        with self.lock:
            refused = next(filter(is_it, self.refused), None)
            if refused:
                self.refused.remove(refused)
            held = next((each for each in self.held if is_it(each.request)), None)
            if held:
                self.held.remove(held)
        if refused:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(ACCESS_DENIED)))])
            return [ACCESS_DENIED]
        if held:
            held.reached.set()
            held.over.wait(60)
        return self.answer(environ, start_response)

    def hold(self, request):
        self.held.append(Held(request))
        return self.held[-1]

    def bucket(self, name):
        """Makes a bucket, and returns it with the file system."""
        import fsspec

        self.s3 = fsspec.filesystem("s3", use_listings_cache=False)
        self.s3.mkdir(name)
        return self.s3

    def lies_in(self, bucket):
        """Returns the objects of a bucket, and checks that no upload is unfinished."""
        assert self.s3.list_multipart_uploads(bucket) == []
        return sorted(self.s3.find(bucket))

    def check_folder(self, manifest):
        folder = manifest.path.rpartition("/")[0].removeprefix("s3://")
        parts = [part.path.removeprefix("s3://") for part in manifest.parts]
        assert [name for name in self.lies_in(folder.partition("/")[0]) if name.startswith(folder + "/")] == sorted([f"{folder}/_manifest.json", *parts])
        assert type(manifest).load(manifest.path) == manifest

    def check_numbers(self, manifest, numbers):
        """Checks the parts by the manifest, and by reading them."""
        read = [np.frombuffer(self.s3.cat_file(part.path), "<u8") for part in manifest.parts]
        assert np.array_equal(np.concatenate(read), np.sort(numbers)) and manifest.items == len(numbers)
        assert [(part.items, part.bytes) for part in manifest.parts] == [(len(data), data.nbytes) for data in read]
        assert sum(int(part.checksum, 16) for part in manifest.parts) % 2**128 == int(manifest.checksum, 16)
        self.check_folder(manifest)
