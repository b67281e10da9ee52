//go:build !race

#include "textflag.h"

// func prefetchLines(base unsafe.Pointer, lines *uint64, n int)
TEXT ·prefetchLines(SB), NOSPLIT, $0-24
	MOVD base+0(FP), R0
	MOVD lines+8(FP), R1
	MOVD n+16(FP), R2
	CMP  $0, R2
	BLE  done
loop:
	MOVD.P 8(R1), R3
	ADD  R3<<6, R0, R4
	PRFM (R4), PLDL1KEEP
	SUBS $1, R2, R2
	BNE  loop
done:
	RET

// func publish(dst, src *words)
//
// Store-release: a reader of a word sees everything that was stored before it.
TEXT ·publish(SB), NOSPLIT, $0-16
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD $8, R2
word:
	MOVD.P 8(R1), R3
	STLR R3, (R0)
	ADD  $8, R0
	SUBS $1, R2, R2
	BNE  word
	RET
