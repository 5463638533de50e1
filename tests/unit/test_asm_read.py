"What kind an instruction is, and which line of the source it came from."
import pytest
from gridstride.asm.read import clean_ptx, kind_of, read_ptx, read_sass

SASS = {
    'tensor': '''
        HMMA.16816.F32 IMMA.16832.S8.S8 DMMA.8x8x4 HGMMA.64x64x16.F32 QGMMA.64x64x32.F32.E4M3.E4M3 QMMA.16832.F32
        OMMA.SF UTCHMMA UTCQMMA.2CTA''',
    'float': '''
        HFMA2.MMA FFMA FADD.FTZ HFMA2 HADD2.F32 DFMA DSETP.GEU.AND MUFU.RSQ FSETP.GT.AND FMNMX FFMA2 FADD2 HMNMX2
        FCHK''',
    'move': 'MOV IMAD.MOV.U32 UMOV S2R S2UR CS2R.32 SEL FSEL R2UR PRMT',
    'integer': '''
        IMAD.WIDE.U32 IADD3.X LEA.HI.X LOP3.LUT ISETP.GE.AND SHF.R.U32.HI UIADD3 ULOP3.LUT VIADD FLO.U32 POPC IABS
        ULEA USHF.L.U32 PLOP3.LUT VIMNMX IDP.4A.S8.S8 UISETP.NE.AND UIMAD''',
    'shared': 'LDS.U.128 STS.64 ATOMS.ADD LDSM.16.M88.4 STSM.16.M88.4',
    'local': 'LDL.LU STL.64',
    'global': '''
        LDG.E.CONSTANT STG.E RED.E.ADD.STRONG.GPU ATOMG.E.ADD LDGSTS.E.BYPASS.128 LD.E ST.E UTMALDG.2D UBLKCP
        REDG.E.ADD''',
    'constant': 'LDC.64 ULDC LDCU.128',
    'barrier': '''
        BAR.SYNC MEMBAR.SC.GPU SYNCS.PHASECHK.TRANS64.TRYWAIT LDGDEPBAR DEPBAR.LE WARPGROUP.DEPBAR.LE
        FENCE.VIEW.ASYNC''',
    'control': 'BRA EXIT BSSY BSYNC RET.REL.NODEC CALL.REL.NOINC WARPSYNC',
    'warp': 'SHFL.BFLY VOTE.ANY VOTEU.ALL REDUX.SUM MATCH.ANY ELECT',
    'convert': 'F2F.F64.F32 I2FP.F32.S32 F2I.TRUNC.NTZ F2FP.BF16.F32.PACK_AB I2F.RP FRND.FLOOR',
}

PTX = {
    'tensor': '''
        wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 tcgen05.mma.cta_group::1.kind::f16''',
    'float': 'fma.rn.f32 add.f32 mul.f64 setp.lt.f32 ex2.approx.f32 fma.rn.f16x2',
    'integer': 'mad.lo.s32 mul.wide.s32 add.s64 setp.ge.s32 and.b32 shl.b32',
    'shared': 'ld.shared.f32 st.shared.v4.f32 ldmatrix.sync.aligned.m8n8.x4.shared.b16 atom.shared.add.u32',
    'local': 'ld.local.f32 st.local.v2.u32',
    'global': '''
        ld.global.nc.f32 st.global.f32 atom.global.add.f32 cp.async.ca.shared.global
        wmma.load.a.sync.aligned.row.m16n16k16.global.f16 red.global.add.f32''',
    'constant': 'ld.param.u64 ld.const.f32',
    'barrier': 'bar.sync cp.async.wait_all mbarrier.try_wait.shared.b64 wgmma.wait_group.sync.aligned',
    'control': 'bra bra.uni ret call.uni',
    'move': 'mov.u32 selp.f32 cvta.to.global.u64',
    'warp': 'shfl.sync.bfly.b32',
    'convert': 'cvt.rn.f32.s32 cvt.f64.f32',
}

PTX_TEXT = r'''.version 9.0
.target sm_90
.address_size 64
.visible .entry _Z5scalePff(
    .param .u64 _Z5scalePff_param_0
)
{
    .reg .f32     %f<3>;
    .loc    1 2 5
    ld.param.u64     %rd1, [_Z5scalePff_param_0];
    mov.u32     %r1, %tid.x;
$L__BB0_1:
    .loc    2 300 1, function_name $L__info_string0, inlined_at 1 3 5
    @%p1 bra     $L__BB0_1;
    { // callseq 0, 0
    call.uni
    vprintf,
    (
    param0
    );
    } // callseq 0
    {  cvt.rn.f16.f32 %rs1, %f1;}
    mov.b64 {%r1, %r2}, %rd1; bar.sync 0;
    ret;
}
    .file    1 "/home/me/scale.cu"
    .file    2 "/usr/include/cuda_fp16.hpp"
'''

SASS_TEXT = r'''
//--------------------- .text._Z5scalePff --------------------------
    .section    .text._Z5scalePff,"ax",@progbits
        .other          _Z5scalePff,@"STO_CUDA_ENTRY STV_DEFAULT"
_Z5scalePff:
    //## File "/home/me/scale.cu", line 2
        /*0000*/                   LDC R1, c[0x0][0x28] ;
    //## File "/usr/include/cuda_fp16.hpp", line 300 inlined at "/home/me/scale.cu", line 3
    //## File "/home/me/scale.cu", line 3
.L_x_1:
        /*0010*/              @!P0 BRA `(.L_x_1) ;
        /*0020*/                   EXIT ;
.L_x_2:
        /*0030*/                   BRA `(.L_x_2);
        /*0040*/                   NOP;
.L_x_3:
//--------------------- .text._Z5otherPff --------------------------
        .other          _Z5otherPff,@"STO_CUDA_ENTRY STV_DEFAULT"
        /*0000*/                   EXIT ;
'''


def words(table): return [(op, kind) for kind, ops in table.items() for op in ops.split()]


@pytest.mark.parametrize('op,kind', words(SASS))
def test_kinds_of_sass(op, kind): assert kind_of(op) == kind


@pytest.mark.parametrize('op,kind', words(PTX))
def test_kinds_of_ptx(op, kind): assert kind_of(op, 'ptx') == kind


def test_what_is_not_known_is_the_rest(): assert kind_of('NOP') == 'other'


def ptx(): return read_ptx(PTX_TEXT, '_Z5scalePff', 'scale.cu')


def sass(): return read_sass(SASS_TEXT, '_Z5scalePff', 'scale.cu')


def lines(items): return [getattr(o, 'line', o) for o in items]


def test_what_was_inlined_from_a_header_has_the_line_of_its_caller():
    assert lines(ptx()) == [2, 2, '$L__BB0_1', 3, 3, 3, 3, 3, 3]
    assert lines(sass()) == [2, '.L_x_1', 3, 3]


def test_jumps_have_their_label(): assert ptx()[3].target == '$L__BB0_1' and sass()[-2].target == '.L_x_1'


def test_a_call_and_a_block_in_ptx_are_instructions():
    assert [o.kind for o in ptx() if not isinstance(o, str)] == [
        'constant',
        'move',
        'control',
        'control',
        'convert',
        'move',
        'barrier',
        'control',
    ]


def test_what_is_there_for_a_debugger_goes():
    clean = clean_ptx(PTX_TEXT, '_Z5scalePff')
    assert (
        clean.startswith('.version 9.0\n.target sm_90')
        and '.loc' not in clean
        and 'callseq' not in clean
        and 'bar.sync 0;' in clean
    )
