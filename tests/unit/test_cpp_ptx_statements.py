"Inline PTX, instruction by instruction: what each becomes, and what is refused."
import pytest

from gridstride.cpp.rewriters.ptx import translate_ptx
from gridstride.cpp.rewriters.ptx_calls import UnknownPTX


@pytest.mark.parametrize('ptx,cpp', [
    ('', ''),
    ('mov.u32 %0, %%tid.x;', '::gridstride::ptx::mov(GS_LINE, gs_0, uint32_t(threadIdx.x));'),
    ('mov.u32 %0, %laneid;', '::gridstride::ptx::mov(GS_LINE, gs_0, uint32_t(::gridstride::lane()));'),
    ('mov.u32 %0, %%lanemask_lt;',
     '::gridstride::ptx::mov(GS_LINE, gs_0, ((1u << ::gridstride::lane()) - 1));'),
    ('mov.b32 %0, 0x10;', '::gridstride::ptx::mov(GS_LINE, gs_0, 0x10);'),
    ('mov.f32 %0, 0f3f800000;', '::gridstride::ptx::mov(GS_LINE, gs_0, ::gridstride::bit_cast<float>(0x3f800000u));'),
    ('mov.f32 %0, -1.5;', '::gridstride::ptx::mov(GS_LINE, gs_0, -1.5f);'),
    ('ld.global.nc.L1::no_allocate.L2::cache_hint.v2.f32 {%0,%1}, [%2+8], %3;',
     '::gridstride::ptx::load_global(GS_LINE, gs_2 + 8, gs_0, gs_1);'),
    ('cp.async.wait_group %0;\n', '::gridstride::copy_async_wait(gs_0);'),
    ('ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%0,%1}, [%2+32];',
     '::gridstride::ptx::ldmatrix<2, true>(GS_LINE, gs_2 + 32, gs_0, gs_1);'),
    ('barrier.sync 1, 64;', '::gridstride::named_barrier(1, 64, true, __LINE__);'),
    ('{ .reg .pred p; // copy or not\n  setp.ne.b32 p, %2, 0;\n'
     '  @p cp.async.cg.shared.global.L2::128B [%0], [%1], 16; }',
     '{ bool gs_register_p{}; gs_register_p = (gs_2) != (0); '
     'if (gs_register_p) ::gridstride::ptx::copy<true, 16>(GS_LINE, gs_0, gs_1); }'),
    ('{ .reg .pred over;\nagain: mbarrier.try_wait.parity.shared.b64 over, [%0], %1;\n@!over bra again; }',
     '{ __label__ gs_label_again; { bool gs_register_over{}; gs_label_again:; gs_register_over = '
     '::gridstride::ptx::wait_parity(GS_LINE, true, gs_0, gs_1); if (!gs_register_over) goto gs_label_again; } }'),
    ('tcgen05.fence::before_thread_sync;', '::gridstride::tmem_fence(true);'),
    ('elect.sync _|%0, %1;',
     '::gridstride::ptx::elect(GS_LINE, ::gridstride::ptx::DiscardedOperand(), gs_0, gs_1);'),
])
def test_what_it_becomes(ptx, cpp): assert translate_ptx(ptx, 4) == cpp


@pytest.mark.parametrize('ptx', ['tcgen05.fence;', 'mov.u32 %0, %%gridid;', 'mov.u32 %0', 'mov.u32 %0, %4;',
    'bar.sync 1;', 'cp.async.wait_group %0, %0;', '.reg .v4 .b32 x;',
    'mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 %0;'])
def test_what_is_refused(ptx):
    with pytest.raises(UnknownPTX): translate_ptx(ptx, 4)
