#pragma once
#include "ck/ck.hpp"
