// Memory of a program of planted bugs, and what its right kernels compute.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdio>

#define AGENT __HIP_MEMORY_SCOPE_AGENT

constexpr int blocks = 16, items = blocks * 64;
static int wrong_values = 0;

template <typename T>
static T* fresh(bool filled = false) {
    T *memory, content[items];
    for (int i = 0; i < items; i++) content[i] = filled ? static_cast<T>(i * 37 % 101 + 1) : T();
    if (hipMalloc(&memory, sizeof content) || hipMemcpy(memory, content, sizeof content, hipMemcpyHostToDevice)) wrong_values++;
    return memory;
}

static int sum_of_filled() {
    int total = 0;
    for (int i = 0; i < items; i++) total += i * 37 % 101 + 1;
    return total;
}

// Reserved, not filled.
template <typename T>
static T* reserved(size_t count) {
    T* memory = nullptr;
    if (hipMalloc(&memory, count * sizeof(T))) wrong_values++;
    return memory;
}

template <typename T>
static void expect(const char* what, const T* memory, size_t at, T value) {
    T found = T();
    if (hipMemcpy(&found, memory + at, sizeof found, hipMemcpyDeviceToHost)) wrong_values++;
    if (found == value) return;
    std::printf("%s: %g, not %g\n", what, static_cast<double>(found), static_cast<double>(value));
    wrong_values++;
}

static int ended() {
    if (hipDeviceSynchronize()) wrong_values++;
    std::printf("%d wrong\n", wrong_values);
    return wrong_values != 0;
}
