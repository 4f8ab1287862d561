#pragma once

// All of Penstock for C++. docs/stability.md tells what stays stable.

#include "penstock/base.h"
#include "penstock/bowtie.h"
#include "penstock/containers.h"
#include "penstock/disk.h"
#include "penstock/file_stream.h"
#include "penstock/files.h"
#include "penstock/partition.h"
#include "penstock/region.h"
#include "penstock/rewire.h"
#include "penstock/sort.h"
#include "penstock/source.h"
#include "penstock/stream.h"
#include "penstock/trace.h"
#include "penstock/version.h"
