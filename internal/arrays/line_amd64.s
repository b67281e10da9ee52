//go:build !race

#include "textflag.h"

// func prefetchLines(base unsafe.Pointer, lines *uint64, n int)
TEXT ·prefetchLines(SB), NOSPLIT, $0-24
	MOVQ base+0(FP), AX
	MOVQ lines+8(FP), BX
	MOVQ n+16(FP), CX
	TESTQ CX, CX
	JLE  done
loop:
	MOVQ (BX), DX
	SHLQ $6, DX
	PREFETCHT0 (AX)(DX*1)
	ADDQ $8, BX
	DECQ CX
	JNZ  loop
done:
	RET

// func publish(dst, src *words)
//
// Stores of amd64 become visible in program order, so plain stores are enough:
// eight exchanges, as sync/atomic would emit, cost more than the other work of an
// add.
TEXT ·publish(SB), NOSPLIT, $0-16
	MOVQ dst+0(FP), AX
	MOVQ src+8(FP), BX
	MOVQ 0(BX), CX
	MOVQ 8(BX), DX
	MOVQ 16(BX), SI
	MOVQ 24(BX), DI
	MOVQ CX, 0(AX)
	MOVQ DX, 8(AX)
	MOVQ SI, 16(AX)
	MOVQ DI, 24(AX)
	MOVQ 32(BX), CX
	MOVQ 40(BX), DX
	MOVQ 48(BX), SI
	MOVQ 56(BX), DI
	MOVQ CX, 32(AX)
	MOVQ DX, 40(AX)
	MOVQ SI, 48(AX)
	MOVQ DI, 56(AX)
	RET
