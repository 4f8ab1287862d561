import os

from hypothesis import settings

# As trials() of src/base/trials.h: PENSTOCK_TRIALS=4 tries a quarter. The same examples each time.
settings.register_profile("gate", max_examples=100 // int(os.environ.get("PENSTOCK_TRIALS", "1")), deadline=None, derandomize=True, database=None)
settings.load_profile("gate")
