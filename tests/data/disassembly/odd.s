; Ways in which a loop may be odd, each a kernel of its own; none of them is meant to run.
	.text
	.globl	far_branch
	.type	far_branch,@function
far_branch:                             ; a loop closed by a branch too far for its operand
	s_load_dword s4, s[0:1], 0x0
	s_waitcnt lgkmcnt(0)
.Lfar_again:
	v_mfma_f32_4x4x4f16 a[0:3], v[0:1], v[2:3], a[0:3]
	s_sub_i32 s4, s4, 1
	s_cmp_eq_u32 s4, 0
	s_cbranch_scc1 .Lfar_end
	s_getpc_b64 s[2:3]
.Lfar_from:
	s_add_u32 s2, s2, (.Lfar_again-.Lfar_from)&4294967295
	s_addc_u32 s3, s3, (.Lfar_again-.Lfar_from)>>32
	s_setpc_b64 s[2:3]
.Lfar_end:
	s_endpgm

	.globl	indirect
	.type	indirect,@function
indirect:                               ; goes where a table says
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	s_waitcnt lgkmcnt(0)
	s_setpc_b64 s[2:3]
.Lindirect_again:
	v_add_f32_e32 v0, v0, v1
	s_cbranch_scc1 .Lindirect_again
	s_endpgm

	.globl	into_the_middle
	.type	into_the_middle,@function
into_the_middle:                        ; two ways into what goes round: no natural loop
	s_cmp_eq_u32 s4, 0
	s_cbranch_scc1 .Lmiddle
.Ltop:
	v_add_f32_e32 v0, v0, v1
.Lmiddle:
	v_mul_f32_e32 v0, v0, v1
	s_cbranch_scc1 .Ltop
	s_endpgm

	.globl	three_loops
	.type	three_loops,@function
three_loops:                            ; the second one has the most matrix work, the third is around it
.Lfirst:
	v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15]
	s_sub_i32 s4, s4, 1
	s_cbranch_scc1 .Lfirst
.Louter:
	global_load_dwordx4 v[4:7], v[8:9], off
	s_waitcnt vmcnt(0)
.Linner:
	v_accvgpr_read_b32 v12, a0
	v_mfma_f32_32x32x8f16 a[0:15], v[4:5], v[6:7], a[0:15]
	v_mfma_f32_32x32x8f16 a[16:31], v[4:5], v[6:7], a[16:31]
	scratch_load_dword v10, off, s32
	s_cbranch_vccz .Lskipped
	ds_write_b16 v10, v11
	ds_read_u16 v10, v11
	s_waitcnt vmcnt(0) lgkmcnt(0)
.Lskipped:
	s_cbranch_scc1 .Linner
	s_cbranch_scc0 .Louter
	s_endpgm

	.globl	to_lds
	.type	to_lds,@function
to_lds:                                 ; memory to LDS, no register between; no matrix instruction
.Lround:
	buffer_load_dword v0, s[0:3], 0 offen lds
	global_load_lds_dword v[0:1], off
	s_cbranch_scc1 .Lround
	s_endpgm
