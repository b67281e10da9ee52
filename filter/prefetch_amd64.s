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
