// Ranks configurations by AMD's analytic model, the C++ core of rocm-origami 0.0.3 (MIT), for benchmarks/predictions.py.
//
// In the unpacked source distribution, with a header hip/hip_runtime.h beside it that declares hipDeviceProp_t (its
// members gcnArchName, multiProcessorCount, sharedMemPerBlock, l2CacheSize, clockRate, memoryClockRate), hipError_t,
// hipGetDeviceProperties and hipGetErrorString:
//
//     g++ -std=c++17 -O1 -Istub -Iinclude origami_driver.cpp src/origami/*.cpp src/simulator/tensilelite/*.cpp -o origami
//
// Reads problems, each with its configurations, and prints `index:clocks` of each, the best first.
#include <iostream>
#include <string>
#include <sstream>
#include "origami/origami.hpp"
#include "origami/hardware.hpp"
using namespace origami;
int main() {
  std::string arch, dtype;
  size_t cus, lds, l2, m, n, k, batch, count;
  int khz;
  while (std::cin >> arch >> cus >> lds >> l2 >> khz >> m >> n >> k >> batch >> dtype >> count) {
    auto hw = hardware_t::get_hardware_for_arch(hardware_t::arch_name_to_enum(arch), cus, lds, l2, khz);
    problem_t p;
    p.size = {m, n, k}; p.batch = batch; p.a_transpose = transpose_t::T; p.b_transpose = transpose_t::N;
    auto t = dtype == "i8" ? data_type_t::Int8 : dtype == "f8" ? (arch == "gfx942" ? data_type_t::Float8_fnuz : data_type_t::Float8) : data_type_t::BFloat16;
    p.a_dtype = p.b_dtype = p.mi_dtype = t; p.c_dtype = p.d_dtype = data_type_t::BFloat16;
    std::vector<config_t> cs;
    for (size_t i = 0; i < count; ++i) {
      config_t c; size_t a, b, d, x, y, z; int occ;
      std::cin >> a >> b >> d >> x >> y >> z >> occ;
      c.mt = {a, b, d}; c.mi = {x, y, z}; c.occupancy = occ; c.index = i; cs.push_back(c);
    }
    try { for (auto& r : rank_configs(p, hw, cs)) { std::cout << r.config.index << ":" << r.latency << " "; } }
    catch (const std::exception& e) { std::cerr << e.what() << "\n"; }
    std::cout << std::endl;
  }
}
