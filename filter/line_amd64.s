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

// func sumLines(sum, x, y *words, n int) (heavy bool)
//
// Nibbles are added as saturating bytes, the upper ones in place and the lower
// ones shifted up; X7 collects the bytes in which a nibble reached 15.
// SSE2, which every processor of this architecture has.
TEXT ·sumLines(SB), NOSPLIT, $0-33
	MOVQ sum+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DX
	MOVQ n+24(FP), CX
	SHLQ $2, CX
	MOVQ $0xf0f0f0f0f0f0f0f0, AX
	MOVQ AX, X8
	PUNPCKLQDQ X8, X8
	MOVQ $0x0f0f0f0f0f0f0f0f, AX
	MOVQ AX, X9
	PUNPCKLQDQ X9, X9
	PXOR X7, X7
quarter:
	MOVOU (SI), X0
	MOVOU (DX), X1
	MOVOA X0, X2
	MOVOA X1, X3
	PSLLQ $4, X2
	PSLLQ $4, X3
	PAND X8, X2
	PAND X8, X3
	PADDUSB X3, X2
	PSRLQ $4, X2
	PAND X9, X2
	PAND X8, X0
	PAND X8, X1
	PADDUSB X1, X0
	PAND X8, X0
	MOVOA X0, X4
	MOVOA X2, X5
	PCMPEQB X8, X4
	PCMPEQB X9, X5
	POR X4, X7
	POR X5, X7
	POR X2, X0
	MOVOU X0, (DI)
	ADDQ $16, SI
	ADDQ $16, DX
	ADDQ $16, DI
	DECQ CX
	JNZ  quarter
	PMOVMSKB X7, AX
	TESTL AX, AX
	SETNE heavy+32(FP)
	RET

// func orLines(dst, src *words, n int) (changed bool)
//
// A line to which src adds nothing is not written.
TEXT ·orLines(SB), NOSPLIT, $0-25
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	XORL BX, BX
line:
	MOVOU 0(DI), X0
	MOVOU 16(DI), X1
	MOVOU 32(DI), X2
	MOVOU 48(DI), X3
	MOVOU 0(SI), X4
	MOVOU 16(SI), X5
	MOVOU 32(SI), X6
	MOVOU 48(SI), X7
	POR X0, X4
	POR X1, X5
	POR X2, X6
	POR X3, X7
	PCMPEQB X4, X0
	PCMPEQB X5, X1
	PCMPEQB X6, X2
	PCMPEQB X7, X3
	PAND X1, X0
	PAND X3, X2
	PAND X2, X0
	PMOVMSKB X0, AX
	CMPL AX, $0xffff
	JEQ  same
	MOVOU X4, 0(DI)
	MOVOU X5, 16(DI)
	MOVOU X6, 32(DI)
	MOVOU X7, 48(DI)
	MOVL $1, BX
same:
	ADDQ $64, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  line
	MOVB BX, changed+24(FP)
	RET

// func raiseLine(l *words, c cells, k uint8, value uint64)
//
// Stores of amd64 become visible in program order.
TEXT ·raiseLine(SB), NOSPLIT, $0-32
	MOVQ l+0(FP), DI
	MOVQ c+8(FP), AX
	MOVBQZX k+16(FP), BX
	MOVQ value+24(FP), SI
	XORL R11, R11
cell:
	MOVQ AX, DX
	SHRQ $4, DX
	ANDL $7, DX
	LEAQ (AX*4), CX
	ANDL $60, CX
	MOVQ (DI)(DX*8), R8
	MOVQ R8, R9
	SHRQ CX, R9
	ANDL $15, R9
	MOVQ SI, R10
	SUBQ R9, R10
	CMOVQCS R11, R10
	SHLQ CX, R10
	ADDQ R10, R8
	MOVQ R8, (DI)(DX*8)
	SHRQ $8, AX
	DECL BX
	JNZ  cell
	RET
