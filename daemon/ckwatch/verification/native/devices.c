/* Devices, and what they say of themselves. */
#include "hip.h"

#include <stdio.h>
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

/* A hipDeviceProp_tR0600. */
EXPORT int hipGetDevicePropertiesR0600(void *properties, int number) {
  enum { BYTES = 1472, ARCH_NAME = 1160, UNLIMITED = INT32_MAX };
  static const struct {
    uint16_t offset;
    int value;
  } fields[] = {{304, 65536}, {320, 1024}, {324, 1024}, {328, 1024}, {332, 1024}, {336, UNLIMITED},
                {340, 65536}, {344, 65536}, {400, 1}, {576, 1}, {580, 1}, {600, 1}, {604, 1}, {624, 2048}, {628, 1},
                {648, 65536}, {652, 1}, {676, 1}, {688, 1}, {712, 2}, {728, 1}, {744, 1}, {1424, 100000}, {1464, 1}};
  ENTER(hipGetDevicePropertiesR0600);
  if (!is_device(number) || !properties) return end(properties ? INVALID_DEVICE : INVALID_VALUE);
  const DeviceFacts *device_facts = device();
  uint8_t *at = memset(properties, 0, BYTES);
  name_of_device((char *)at, 256);
  const struct {
    uint16_t offset;
    uint64_t value;
  } sizes[] = {{288, memory_total()}, {296, (uint64_t)device_facts->lds_bytes}, {312, INT32_MAX}, {352, INT32_MAX},
               {640, (uint64_t)device_facts->lds_bytes}, {696, (uint64_t)device_facts->lds_bytes},
               {1416, (uint64_t)device_facts->lds_bytes}};
  const struct {
    uint16_t offset;
    int value;
  } facts_at[] = {{348, device_facts->clock_khz}, {360, device_facts->major}, {364, device_facts->minor},
                  {388, number ? 104 : (int)told_number("UNITS", device_facts->compute_units)},
                  {584, (int)told_number("BUS", 0) + 8 * number}, {608, device_facts->memory_clock_khz},
                  {612, device_facts->bus_bits}, {616, device_facts->l2_bytes}, {308, (int)lanes_of_wave(device_arch())}};
  for (size_t n = 0; n < sizeof fields / sizeof *fields; n++) memcpy(at + fields[n].offset, &fields[n].value, 4);
  for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) memcpy(at + sizes[n].offset, &sizes[n].value, 8);
  for (size_t n = 0; n < sizeof facts_at / sizeof *facts_at; n++)
    memcpy(at + facts_at[n].offset, &facts_at[n].value, 4);
  snprintf((char *)at + ARCH_NAME, 256, "%s%s", device_facts->name, is_rdna(device_arch()) ? "" : ":sramecc+:xnack-");
  return SUCCESS;
}

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
CALL(hipChooseDeviceR0600, (int *number, const void *wanted),
     number && wanted ? (*number = 0, devices() ? SUCCESS : NO_DEVICE) : INVALID_VALUE)
