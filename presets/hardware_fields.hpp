#pragma once

#include <array>
#include <utility>

#include "formulas/efficiency.hpp"
#include "formulas/hardware_profile.hpp"
#include "formulas/names.hpp"

/// The keys of a profile, once: hardware_reader.cpp and hardware_writer.cpp visit the same fields. A number of 0, an
/// empty text and an empty list are not written, and read as that when absent; what is something else when absent is
/// never 0, and says what it is at least.
namespace plan::hardware {

inline constexpr Named<Provenance> kKinds[] = {{Provenance::Measured, "measured"},
                                               {Provenance::Imported, "imported"},
                                               {Provenance::Fitted, "estimated"},
                                               {Provenance::Datasheet, "datasheet"},
                                               {Provenance::Assumed, "user"}};
inline constexpr Named<Orientation> kOrientationWords[] = {
    {Orientation::Forward, "tn"}, {Orientation::DataGrad, "nn"}, {Orientation::WeightGrad, "nt"}};
inline constexpr Named<bool> kPasses[] = {{false, "fwd"}, {true, "bwd"}};
inline constexpr double kLeastSlowdown = 0.01;
inline constexpr Named<bool> kConcurrency[] = {{true, "all"}, {false, "one"}};

inline std::array<double*, 5> columns(GemmPoint& p) { return {&p.m, &p.n, &p.k, &p.us, &p.spread}; }
inline std::array<double*, 6> columns(AttentionPoint& p) {
  return {&p.batch, &p.heads, &p.kv_heads, &p.seq, &p.us, &p.spread};
}
inline std::array<double*, 3> columns(CurvePoint& p) { return {&p.bytes, &p.us, &p.spread}; }

template <class V>
void fields(V& v, ProfileSource& s) {
  v.word("kind", s.kind, kKinds);
  v.text("tool", s.tool);
  v.text("source", s.source);
  v.text("date_utc", s.date_utc);
  v.integer("host_count", s.host_count);
  v.integer("gpu_count", s.gpu_count);
  v.text("driver", s.driver);
  v.text("cuda_runtime", s.cuda_runtime);
  v.text("nccl", s.nccl);
  v.text("nccl_env", s.nccl_env);
  v.text("launcher", s.launcher);
  v.number("budget_s", s.budget_s);
}

template <class V>
void fields(V& v, ProfileGpu& g) {
  v.text("model", g.model);
  v.text("preset", g.preset);
  v.text("pci_device_id", g.pci_device_id);
  v.text("compute_capability", g.compute_capability);
  v.integer("sm_count", g.sm_count);
  v.number("l2_mib", g.l2_mib);
}

template <class V>
void fields(V& v, ProfileMemory& m) {
  v.number("total_gib", m.total_gib);
  v.number("usable_gib", m.usable_gib);
  v.number("context_gib", m.context_gib);
  v.number("cublas_workspace_gib", m.cublas_workspace_gib);
  v.text("prov", m.prov);
}

template <class V>
void fields(V& v, ProfileHbm& h) {
  v.measured("copy_gb_s", h.copy);
  v.measured("triad_gb_s", h.triad);
  v.number("fixed_us", h.fixed_us);
  v.text("prov", h.prov);
}

template <class V>
void fields(V& v, CurveQuality& q) {
  v.integer("points", q.points);
  v.number("median_err", q.median_err);
  v.number("p90_err", q.p90_err);
  v.number("held_out_err", q.held_out_err);
  v.words("flags", q.flags);
}

template <class V>
void fields(V& v, ProfileGemm& g) {
  v.text("dtype", g.format);
  v.word("orientation", g.orientation, kOrientationWords);
  v.section("roofline", [&](auto& r) {
    r.number("t0_us", g.t0_us);
    r.number("f_tflops", g.f_tflops);
    r.number("w_tb_s", g.w_tb_s);
  });
  v.group("quality", g.quality);
  v.number("sustained_tflops", g.sustained_tflops);
  v.number("burst_tflops", g.burst_tflops);
  v.number("sm_clock_mhz_p50", g.sm_clock_mhz_p50);
  v.words("throttle", g.throttle);
  v.text("prov", g.prov);
  v.rows("grid", g.grid);  // m, n, k, median us, spread
}

template <class V>
void fields(V& v, ProfileAttention& a) {
  v.word("pass", a.backward, kPasses);
  v.integer("head_dim", a.head_dim, 1);
  v.section("fit", [&](auto& f) {
    f.number("t0_us", a.t0_us);
    f.number("fmax_tflops", a.fmax_tflops);
    f.number("s0", a.s0);
    f.number("b0", a.b0);
  });
  v.group("quality", a.quality);
  v.text("prov", a.prov);
  v.rows("grid", a.grid);  // batch, heads, kv heads, seq, median us, spread
}

template <class V>
void fields(V& v, ProfileKernel& k) {
  v.text("op", k.op);
  v.number("efficiency", k.efficiency);
  v.number("gb_s", k.gb_s);
  v.number("fixed_us", k.fixed_us);
  v.number("spread", k.spread);
  v.text("prov", k.prov);
}

template <class V>
void fields(V& v, ProfileHostLink& h) {
  v.text("kind", h.kind);
  v.integer("gen", h.gen);
  v.integer("width", h.width);
  v.measured("h2d_gb_s", h.h2d);
  v.measured("d2h_gb_s", h.d2h);
  v.measured("bidir_total_gb_s", h.bidir);
  v.measured("all_gpus_h2d_gb_s", h.all_gpus_h2d);
  v.text("prov", h.prov);
}

template <class V>
void fields(V& v, ProfilePair& p) {
  v.index("from", p.from);
  v.index("to", p.to);
  v.number("gb_s", p.gb_s);
  v.number("latency_us", p.latency_us);
  v.text("prov", p.prov);
}

template <class V>
void fields(V& v, ProfileTier& t) {
  v.text("id", t.id);
  v.text("kind", t.kind);
  v.integer("size", t.size);
  v.number("per_gpu_gb_s", t.per_gpu_gb_s);
  v.number("measured_gb_s_per_gpu", t.measured_gb_s);
  v.number("oversubscription", t.oversubscription, 1);
  v.number("latency_us", t.latency_us);
  v.text("prov", t.prov);
}

template <class V>
void fields(V& v, ProfileCurve& c) {
  v.word("op", c.op, kCollectiveNames);
  v.text("dtype", c.dtype);
  v.section("layout", [&](auto& l) {
    l.integer("n", c.layout.n, 1);
    l.integer("ranks_per_node", c.layout.ranks_per_node, 1);
    l.integer("nodes", c.layout.nodes, 1);
    l.word("concurrent", c.layout.all, kConcurrency);
  });
  v.section("fit", [&](auto& f) {
    f.number("alpha_us", c.alpha_us);
    f.number("busbw_gb_s", c.busbw_gb_s);
    f.number("p", c.p, kLeastP, kMostP);
  });
  v.text("algo", c.algo);
  v.group("quality", c.quality);
  v.text("prov", c.prov);
  v.rows("table", c.table);  // bytes, median us, spread
}

template <class V>
void fields(V& v, ProfileOverlap& o) {
  v.text("compute", o.compute);
  v.text("comm", o.comm);
  v.number("compute_slowdown", o.compute_slowdown, kLeastSlowdown);
  v.number("comm_slowdown", o.comm_slowdown, kLeastSlowdown);
  v.text("prov", o.prov);
}

template <class V>
void fields(V& v, ProfileNcclMemory& m) {
  v.text("what", m.what);
  v.integer("ranks", m.ranks);
  v.number("gib", m.gib);
  v.text("prov", m.prov);
}

template <class V>
void fields(V& v, ProfileNcclChannels& c) {
  v.integer("collective", c.collective);
  v.integer("nvls", c.nvls);
  v.integer("p2p", c.p2p);
  v.text("prov", c.prov);
}

template <class V>
void fields(V& v, ProfileConditions& c) {
  v.text("section", c.section);
  v.integer("samples", c.samples);
  v.number("sm_clock_mhz_p50", c.sm_clock_mhz_p50);
  v.number("memory_clock_mhz_p50", c.memory_clock_mhz_p50);
  v.number("power_w_p50", c.power_w_p50);
  v.number("temperature_c_max", c.temperature_c_max);
  v.number("drift_pct", c.drift_pct);
  v.integer("passes", c.passes, 1);
  v.words("throttle", c.throttle);
  v.text("prov", c.prov);
}

template <class V>
void fields(V& v, ProfileWarning& w) {
  v.text("code", w.code);
  v.text("where", w.where);
  v.text("text", w.text);
}

template <class V>
void fields(V& v, ProfileSkip& s) {
  v.text("what", s.what);
  v.text("reason", s.reason);
}

template <class V>
void fields(V& v, HardwareProfile& p) {
  v.text("name", p.name);
  v.flag("partial", p.partial);
  v.text("stopped", p.stopped);
  v.flag("synthetic_topology", p.synthetic);
  v.sources("provenance", p.provenance);
  v.group("gpu", p.gpu);
  v.integer("gpus_per_node", p.gpus_per_node);
  v.integer("host_gpus", p.host_gpus);
  v.number("host_memory_gib", p.host_memory_gib);
  v.integer("nodes", p.nodes);
  v.group("memory", p.memory);
  v.group("hbm", p.hbm);
  v.list("gemm", p.gemm);
  v.list("attention", p.attention);
  v.list("memory_bound", p.memory_bound);
  v.group("host_link", p.host_link);
  v.list("pairs", p.pairs);
  v.list("tiers", p.tiers);
  v.list("collectives", p.collectives);
  v.list("overlap", p.overlap);
  v.list("nccl_memory", p.nccl_memory);
  v.group("nccl_channels", p.nccl_channels);
  v.list("conditions", p.conditions);
  v.list("warnings", p.warnings);
  v.list("skipped", p.skipped);
}

}  // namespace plan::hardware
