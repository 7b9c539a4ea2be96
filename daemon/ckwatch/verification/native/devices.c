/* Devices, and what they say of themselves. */
#include "hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

CALL(hipInit, (unsigned flags), flags ? INVALID_VALUE : devices() ? SUCCESS : NO_DEVICE)
ACT(hipRuntimeGetVersion, (int *version), true, SUCCESS, *version = (int)told_number("VERSION", 70253211))
ACT(hipDriverGetVersion, (int *version), true, SUCCESS, *version = (int)told_number("VERSION", 70253211))
CALL(hipGetDeviceCount, (int *count), (*count = devices(), *count ? SUCCESS : NO_DEVICE))
ACT(hipSetDevice, (int number), is_device(number), INVALID_DEVICE, current_device = number)
CALL(hipGetDevice, (int *number), (*number = current_device, devices() ? SUCCESS : NO_DEVICE))
CALL(hipDeviceGet, (int *handle, int number), (*handle = number, is_device(number) ? SUCCESS : INVALID_DEVICE))
ACT(hipGetDeviceFlags, (unsigned *flags), true, SUCCESS, *flags = 0)
CALL(hipSetDeviceFlags, (unsigned flags), SUCCESS)

static void name_of_device(char *text, size_t size) {
  char name[64];
  snprintf(name, sizeof name, "emulated %s", device()->name);
  snprintf(text, size, "%s", told_text("DEVICE", name));
}

/* Where HIP 6 and later have the properties of a device (hipDeviceProp_tR0600), and where HIP up to 5 had them. */
enum { R0600, R0000, LAYOUTS };

static int properties_of_device(uint8_t *at, int number, int layout) {
  enum { UNLIMITED = INT32_MAX, ABSENT = 0 };
  static const uint16_t bytes[LAYOUTS] = {1472, 792}, arch_name[LAYOUTS] = {1160, 396};
  if (!is_device(number) || !at) return at ? INVALID_DEVICE : INVALID_VALUE;
  const DeviceFacts *device_facts = device();
  const uint64_t lds_bytes = (uint64_t)device_facts->lds_bytes;
  const char *stepping = device_facts->name + strlen(device_facts->name) - 1;
  const int family = device_facts->major * 100 + device_facts->minor * 10;
  const struct {
    uint16_t offsets[LAYOUTS], size;
    uint64_t value;
  } fields[] = {
      {{288, 256}, 8, memory_total()},
      {{296, 264}, 8, lds_bytes},    /* sharedMemPerBlock */
      {{304, 272}, 4, 65536},        /* regsPerBlock */
      {{308, 276}, 4, lanes_of_wave(device_arch())},
      {{312, 712}, 8, INT32_MAX},    /* memPitch */
      {{320, 280}, 4, 1024},         /* of a workgroup, and of each of its dimensions */
      {{324, 284}, 4, 1024},
      {{328, 288}, 4, 1024},
      {{332, 292}, 4, 1024},
      {{336, 296}, 4, UNLIMITED},    /* of a grid */
      {{340, 300}, 4, 65536},
      {{344, 304}, 4, 65536},
      {{348, 308}, 4, (unsigned)device_facts->clock_khz},
      {{352, 320}, 8, INT32_MAX},    /* totalConstMem */
      {{360, 328}, 4, (unsigned)device_facts->major},
      {{364, 332}, 4, (unsigned)device_facts->minor},
      {{388, 336}, 4, number ? 104 : (uint64_t)told_number("UNITS", device_facts->compute_units)},
      {{400, 388}, 4, 1},            /* canMapHostMemory */
      {{576, 360}, 4, 1},            /* concurrentKernels */
      {{580, 740}, 4, 1},            /* ECCEnabled */
      {{584, 368}, 4, (uint64_t)(told_number("BUS", 0) + 8 * number)},
      {{600, ABSENT}, 4, 1},         /* asyncEngineCount */
      {{604, ABSENT}, 4, 1},         /* unifiedAddressing */
      {{608, 312}, 4, (unsigned)device_facts->memory_clock_khz},
      {{612, 316}, 4, (unsigned)device_facts->bus_bits},
      {{616, 340}, 4, (unsigned)device_facts->l2_bytes},
      {{624, 344}, 4, 2048},         /* maxThreadsPerMultiProcessor */
      {{628, ABSENT}, 4, 1},         /* streamPrioritiesSupported */
      {{640, ABSENT}, 8, lds_bytes}, /* sharedMemPerMultiprocessor */
      {{648, ABSENT}, 4, 65536},     /* regsPerMultiprocessor */
      {{652, 768}, 4, 1},            /* managedMemory */
      {{676, 780}, 4, 1},            /* concurrentManagedAccess */
      {{688, 656}, 4, 1},            /* cooperativeLaunch */
      {{696, ABSENT}, 8, lds_bytes}, /* sharedMemPerBlockOptin */
      {{712, ABSENT}, 4, 2},         /* maxBlocksPerMultiProcessor */
      {{728, ABSENT}, 4, 1},         /* hostRegisterSupported */
      {{744, ABSENT}, 4, 1},         /* memoryPoolsSupported */
      {{1416, 376}, 8, lds_bytes},   /* maxSharedMemoryPerMultiProcessor */
      {{1424, 352}, 4, 100000},      /* clockInstructionRate */
      {{ABSENT, 392}, 4, (unsigned)family + strtoul(stepping, NULL, 16)}, /* gcnArch */
      {{1464, 764}, 4, 1},           /* isLargeBar */
  };
  memset(at, 0, bytes[layout]);
  name_of_device((char *)at, 256);
  for (size_t n = 0; n < sizeof fields / sizeof *fields; n++)
    if (fields[n].offsets[layout]) memcpy(at + fields[n].offsets[layout], &fields[n].value, fields[n].size);
  snprintf((char *)at + arch_name[layout], 256, "%s%s", device_facts->name,
           is_rdna(device_arch()) ? "" : ":sramecc+:xnack-");
  return SUCCESS;
}
CALL(hipGetDevicePropertiesR0600, (void *properties, int number), properties_of_device(properties, number, R0600))
/* The name that HIP's headers up to 5 call; those of later ones call the former. */
CALL(hipGetDeviceProperties, (void *properties, int number), properties_of_device(properties, number, R0000))
CALL(hipGetDevicePropertiesR0000, (void *properties, int number), properties_of_device(properties, number, R0000))

EXPORT int hipDeviceGetPCIBusId(char *text, int length, int number) {
  ENTER(hipDeviceGetPCIBusId);
  if (!is_device(number)) return end(INVALID_DEVICE);
  if (!text || length <= 0) return end(INVALID_VALUE);
  long long bus = told_number("BUS", 0);
  if (bus) snprintf(text, (size_t)length, "0000:%02X:00.0", (unsigned)bus + 8u * (unsigned)number);
  else snprintf(text, (size_t)length, "emulated");
  return SUCCESS;
}
ACT(hipDeviceGetName, (char *text, int length, int number),
    is_device(number), INVALID_DEVICE, name_of_device(text, (size_t)length))
EXPORT int hipDeviceTotalMem(size_t *bytes, int number) {
  ENTER(hipDeviceTotalMem);
  *bytes = memory_total();
  return end(is_device(number) ? SUCCESS : INVALID_DEVICE);
}
EXPORT int hipDeviceComputeCapability(int *major, int *minor, int number) {
  ENTER(hipDeviceComputeCapability);
  *major = device()->major;
  *minor = device()->minor;
  return end(is_device(number) ? SUCCESS : INVALID_DEVICE);
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int number) {
  ENTER(hipDeviceGetAttribute);
  if (!value) return end(INVALID_VALUE);
  if (!is_device(number)) return end(INVALID_DEVICE);
  const DeviceFacts *device_facts = device();
  switch (attribute) {
    case 0: case 2: case 3: case 4: case 8: case 9: case 10: case 24: case 78: case 85: case 88: case 90: case 10011:
    case 10016: *value = 1; break; /* ECC, one engine, memory of the host, cooperative launches, managed, pools, … */
    case 5: *value = device_facts->clock_khz; break;    /* ClockRate */
    case 19: *value = device_facts->l2_bytes; break;    /* L2CacheSize */
    case 23: *value = device_facts->major; break;
    case 61: *value = device_facts->minor; break;
    case 25: *value = 2; break;                         /* MaxBlocksPerMultiProcessor */
    case 26: case 27: case 28: case 55: case 56: *value = 1024; break; /* of a workgroup */
    case 29: *value = INT32_MAX; break;                 /* of a grid */
    case 30: case 31: *value = 65536; break;
    case 57: *value = 2048; break;                      /* MaxThreadsPerMultiProcessor */
    case 58: case 83: *value = INT32_MAX; break;        /* MaxPitch, TotalConstantMemory */
    case 59: *value = device_facts->bus_bits; break;
    case 60: *value = device_facts->memory_clock_khz; break;
    case 63: case 10015: *value = (int)told_number("UNITS", device_facts->compute_units); break;
    case 67: *value = (int)told_number("BUS", 0); break;
    case 71: case 72: *value = 65536; break;            /* registers */
    case 74: case 75: case 76: case 10002: *value = device_facts->lds_bytes; break;
    case 84: *value = memory_total() > INT32_MAX ? INT32_MAX : (int)memory_total(); break;
    case 87: *value = (int)lanes_of_wave(device_arch()); break;
    case 10000: case 10017: *value = 100000; break;     /* ClockInstructionRate, WallClockRate */
    case 10013: *value = !lacks("wait-value"); break;   /* CanUseStreamWaitValue */
    case 10018: *value = 1; break;                      /* NumberOfXccs */
    case 10019: *value = 512; break;                    /* MaxAvailableVgprsPerThread */
    default:
      *value = 0;
      if (attribute < 0 || (attribute > 91 && attribute < 10000) || attribute > 10020) return end(INVALID_VALUE);
  }
  return SUCCESS;
}
EXPORT int hipDeviceCanAccessPeer(int *can, int number, int peer) {
  ENTER(hipDeviceCanAccessPeer);
  *can = number != peer;
  return end(is_device(number) && is_device(peer) ? SUCCESS : INVALID_DEVICE);
}
EXPORT int hipDeviceGetStreamPriorityRange(int *least, int *greatest) {
  ENTER(hipDeviceGetStreamPriorityRange);
  if (least) *least = 1;
  if (greatest) *greatest = -1;
  return SUCCESS;
}
/* Numbers of calls to profilers, which the emulator does not have. */
EXPORT const char *hipApiName(uint32_t number) { return "unknown"; }
EXPORT const char *hipGetCmdName(uint32_t number) { return "unknown"; }

static int find_by_bus(int *number, const char *text) {
  if (!number || !text) return INVALID_VALUE;
  for (int n = 0; n < devices(); n++) {
    char own[32];
    int error = hipDeviceGetPCIBusId(own, sizeof own, n);
    if (error) return error;
    if (strcasecmp(own, text) == 0) return *number = n, SUCCESS;
  }
  return INVALID_VALUE;
}
CALL(hipDeviceGetByPCIBusId, (int *number, const char *text), find_by_bus(number, text))
static int identify(char *bytes, int number) { /* a hipUUID */
  if (!bytes) return INVALID_VALUE;
  if (!is_device(number)) return INVALID_DEVICE;
  char text[32];
  snprintf(text, sizeof text, "ckwatch-%s-%02d", device()->name, number);
  memset(bytes, 0, 16);
  memcpy(bytes, text, strnlen(text, 16));
  return SUCCESS;
}
CALL(hipDeviceGetUuid, (char *bytes, int number), identify(bytes, number))
static int choose_device(int *number, const void *wanted) {
  return number && wanted ? (*number = 0, devices() ? SUCCESS : NO_DEVICE) : INVALID_VALUE;
}
CALL(hipChooseDevice, (int *number, const void *wanted), choose_device(number, wanted))
CALL(hipChooseDeviceR0000, (int *number, const void *wanted), choose_device(number, wanted))
CALL(hipChooseDeviceR0600, (int *number, const void *wanted), choose_device(number, wanted))
