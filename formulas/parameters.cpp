#include "formulas/parameters.hpp"
