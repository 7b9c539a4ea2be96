/* Functions of AMD's library that are not emulated: a program that has them in it starts, and hears of it where it calls one.
 * Those that other files define take the place of these. */
#include "hip.h"

#define EXPORTED(name)                         \
  __attribute__((weak)) EXPORT int name(void) { \
    ENTER(name);                               \
    REFUSE(#name " is not emulated");          \
  }
#include "hip_exports.inc"

/* Textures, surfaces and what they bind. */
#define IMAGES(name)                                                                                            \
  EXPORT int name(void) {                                                                                       \
    ENTER(name);                                                                                                \
    REFUSE(#name " is refused: there are no textures and surfaces (hipDeviceAttributeImageSupport is 0)");      \
  }
IMAGES(hipCreateTextureObject)
IMAGES(hipTexObjectCreate)
IMAGES(hipCreateSurfaceObject)
IMAGES(hipBindTexture)
IMAGES(hipBindTexture2D)
IMAGES(hipBindTextureToArray)
IMAGES(hipBindTextureToMipmappedArray)
IMAGES(hipGetTextureReference)
IMAGES(hipModuleGetTexRef)
/* Of what could not be made, there is nothing to destroy. */
CALL(hipDestroyTextureObject, (uint64_t texture), texture ? INVALID_VALUE : SUCCESS)
CALL(hipTexObjectDestroy, (uint64_t texture), texture ? INVALID_VALUE : SUCCESS)
CALL(hipDestroySurfaceObject, (uint64_t surface), surface ? INVALID_VALUE : SUCCESS)
CALL(hipUnbindTexture, (const void *texture), texture ? INVALID_VALUE : SUCCESS)
