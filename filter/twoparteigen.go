package filter

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// An Eigenvalue selects the feature of an element that goes into the second section of a [TwoPart]
// filter. Jiang & Zhao list the choices in section 3.
type Eigenvalue uint8

// The eigenvalues.
const (
	// EigenHash is an independent hash of the whole element (the paper's "random function"). The
	// filter is then as good as a classic one. It is the only eigenvalue for which the error
	// formula holds, and the default for all uses except experiments.
	EigenHash Eigenvalue = iota + 1
	// EigenChars is the 1st, 4th and 7th letter or digit (Table 1 of the paper: the first of each
	// group of three), of the local part of an address, of the host without "www." of a URL, of the
	// domain itself.
	EigenChars
	// EigenDomain is the domain of an address, the host of a URL.
	EigenDomain
	// EigenLength is the length of the domain in bytes.
	EigenLength
	// EigenMidSquare is the middle 32 bits of the square of the element, read as a number mod
	// 2^32-5.
	EigenMidSquare
	// EigenDivision is the element, read as a number, mod 65521.
	EigenDivision
	numEigenvalues
)

// Valid reports whether e is one of the constants.
func (e Eigenvalue) Valid() bool { return e >= EigenHash && e < numEigenvalues }

// String returns the name of e: "hash", "chars", "domain", "length",
// "mid-square", "division", or "invalid".
func (e Eigenvalue) String() string {
	switch e {
	case EigenHash:
		return "hash"
	case EigenChars:
		return "chars"
	case EigenDomain:
		return "domain"
	case EigenLength:
		return "length"
	case EigenMidSquare:
		return "mid-square"
	case EigenDivision:
		return "division"
	}
	return "invalid"
}

// ParseEigenvalue returns the eigenvalue called name.
func ParseEigenvalue(name string) (Eigenvalue, error) {
	for e := EigenHash; e < numEigenvalues; e++ {
		if e.String() == name {
			return e, nil
		}
	}
	return 0, fmt.Errorf("filter: unknown eigenvalue %.40q", name)
}

const (
	midSquarePrime = 1<<32 - 5
	divisionPrime  = 65521
)

// Append appends the eigenvalue of element x, an address ("local@domain"), a domain or a URL
// ("scheme://host/..."), to dst. For [EigenHash], which is not a text, it appends x itself. Every x
// has an eigenvalue, possibly empty, and equal elements have equal eigenvalues.
func (e Eigenvalue) Append(dst, x []byte) []byte {
	switch e {
	case EigenHash:
		return append(dst, x...)
	case EigenChars:
		return appendChars(dst, x)
	case EigenDomain:
		return append(dst, domainOf(x)...)
	case EigenLength:
		return binary.LittleEndian.AppendUint32(dst, uint32(len(domainOf(x))))
	case EigenMidSquare:
		v := remainder(x, midSquarePrime)
		return binary.LittleEndian.AppendUint32(dst, uint32(v*v>>16))
	case EigenDivision:
		return binary.LittleEndian.AppendUint32(dst, uint32(remainder(x, divisionPrime)))
	}
	return dst
}

// domainOf returns the domain of an address, the host of a URL (without user and port), or x
// itself.
func domainOf(x []byte) []byte {
	if i := bytes.Index(x, []byte("://")); i >= 0 {
		x = x[i+3:]
		if i := bytes.IndexAny(x, "/?#"); i >= 0 {
			x = x[:i]
		}
		x = x[bytes.LastIndexByte(x, '@')+1:]
		if i := bytes.LastIndexByte(x, ':'); i >= 0 && bytes.IndexByte(x[i:], ']') < 0 {
			x = x[:i]
		}
		return x
	}
	return x[bytes.LastIndexByte(x, '@')+1:]
}

// appendChars appends characters 1, 4 and 7 of the part of x that its owner chose.
func appendChars(dst, x []byte) []byte {
	own := x
	if i := bytes.Index(x, []byte("://")); i >= 0 {
		own = bytes.TrimPrefix(domainOf(x), []byte("www."))
	} else if i := bytes.LastIndexByte(x, '@'); i >= 0 {
		own = x[:i]
	}
	n := 0
	for _, b := range own {
		if b == '.' || b == '-' || b == '_' || b == '+' {
			continue
		}
		if n++; n%3 == 1 && n <= 7 {
			dst = append(dst, b)
		}
	}
	return dst
}

// remainder returns the big-endian integer x mod p, p < 2^56.
func remainder(x []byte, p uint64) uint64 {
	var r uint64
	for _, b := range x {
		r = (r<<8 | uint64(b)) % p
	}
	return r
}
