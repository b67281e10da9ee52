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
// Stores of amd64 become visible in program order, so plain ones do: eight
// exchanges, which is what sync/atomic would emit, cost more than the rest of an
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

// func hasLines(base *words, at *uint64, keys *Key, n int, found *bool)
//
// DX counts the bits of the key that are set.
TEXT ·hasLines(SB), NOSPLIT, $0-40
	MOVQ at+8(FP), SI
	MOVQ keys+16(FP), BX
	MOVQ n+24(FP), R9
	MOVQ found+32(FP), DI
	MOVQ base+0(FP), R10
key:
	MOVQ (SI), AX
	SHLQ $6, AX
	ADDQ R10, AX
	MOVQ 8(BX), CX
	XORL DX, DX
	MOVQ 0(AX), R8
	BTQ CX, R8
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 8(AX), R8
	BTQ CX, R8
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 16(AX), R8
	BTQ CX, R8
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 24(AX), R8
	BTQ CX, R8
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 32(AX), R8
	BTQ CX, R8
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 40(AX), R8
	BTQ CX, R8
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 48(AX), R8
	BTQ CX, R8
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 56(AX), R8
	BTQ CX, R8
	ADCQ $0, DX
	CMPQ DX, $8
	SETEQ (DI)
	ADDQ $8, SI
	ADDQ $16, BX
	INCQ DI
	DECQ R9
	JNZ  key
	RET

// func setLines(base *words, at *uint64, keys *Key, n int, before *bool)
//
// Stores of amd64 become visible in program order. A line that has all bits of
// its key is not written, so that it stays clean in the caches.
TEXT ·setLines(SB), NOSPLIT, $8-40
	MOVQ at+8(FP), SI
	MOVQ keys+16(FP), BX
	MOVQ n+24(FP), DX
	MOVQ before+32(FP), DI
	LEAQ (SI)(DX*8), DX
	MOVQ DX, end-8(SP)
key:
	MOVQ (SI), AX
	SHLQ $6, AX
	ADDQ base+0(FP), AX
	MOVQ 8(BX), CX
	XORL DX, DX
	MOVQ 0(AX), R8
	BTSQ CX, R8
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 8(AX), R9
	BTSQ CX, R9
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 16(AX), R10
	BTSQ CX, R10
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 24(AX), R11
	BTSQ CX, R11
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 32(AX), R12
	BTSQ CX, R12
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 40(AX), R13
	BTSQ CX, R13
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 48(AX), R14
	BTSQ CX, R14
	ADCQ $0, DX
	SHRQ $8, CX
	MOVQ 56(AX), R15
	BTSQ CX, R15
	ADCQ $0, DX
	CMPQ DX, $8
	SETEQ (DI)
	JEQ  next
	MOVQ R8, 0(AX)
	MOVQ R9, 8(AX)
	MOVQ R10, 16(AX)
	MOVQ R11, 24(AX)
	MOVQ R12, 32(AX)
	MOVQ R13, 40(AX)
	MOVQ R14, 48(AX)
	MOVQ R15, 56(AX)
next:
	ADDQ $8, SI
	ADDQ $16, BX
	INCQ DI
	CMPQ SI, end-8(SP)
	JLT  key
	RET
