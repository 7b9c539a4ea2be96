/* Textures and surfaces, which compute devices do not have: gfx9 has no instructions for images. */
#include "hip.h"

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
