package signature

import (
	"bytes"
	"crypto/sha256"
	"math/big"
	"strings"

	"golang.org/x/crypto/sha3"
)

// wallet returns the name of the wallet that a word of four letters or more is, "" if it
// is none: all of them carry a checksum.
func wallet(word string) string {
	switch c := word[0]; {
	case len(word) == 42 && strings.HasPrefix(word, "0x"):
		if ethereum(word[2:]) {
			return strings.ToLower(word)
		}
	case (c == '4' || c == '8') && (len(word) == 95 || len(word) == 106):
		if monero(word) {
			return word
		}
	case len(word) >= 26 && len(word) <= 35 && base58Check(word):
		return word
	case strings.EqualFold(word[:3], "bc1") || strings.EqualFold(word[:4], "ltc1"):
		if word == strings.ToLower(word) || word == strings.ToUpper(word) {
			if word = strings.ToLower(word); bech32(word) {
				return word
			}
		}
	default:
		return iban([]byte(word))
	}
	return ""
}

const base58Digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// base58 returns the number that base 58 digits stand for, nil for other letters.
func base58(word string) *big.Int {
	n, radix := new(big.Int), big.NewInt(58)
	for i := range len(word) {
		d := strings.IndexByte(base58Digits, word[i])
		if d < 0 {
			return nil
		}
		n.Add(n.Mul(n, radix), big.NewInt(int64(d)))
	}
	return n
}

// base58Check reports whether a word is an address of Bitcoin, Litecoin, Dogecoin or
// Tron: a version, 20 bytes, and four of their doubled SHA-256 hash.
func base58Check(word string) bool {
	if strings.IndexByte("13LMDAT9", word[0]) < 0 {
		return false
	}
	n := base58(word)
	if n == nil || n.BitLen() > 25*8 {
		return false
	}
	var b [25]byte
	n.FillBytes(b[:])
	// Each 1 before the other digits is a byte of zero, and there are no others.
	if ones := len(word) - len(strings.TrimLeft(word, "1")); ones != len(b)-len(bytes.TrimLeft(b[:], "\x00")) {
		return false
	}
	switch b[0] {
	case 0x00, 0x05, 0x30, 0x32, 0x1e, 0x16, 0x41:
	default:
		return false
	}
	sum := sha256.Sum256(b[:21])
	sum = sha256.Sum256(sum[:])
	return string(sum[:4]) == string(b[21:])
}

// bech32 reports whether a word in lower case is a segwit address: six digits of 5
// bits are a checksum of the others (BIP 173, BIP 350).
func bech32(word string) bool {
	const digits = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	prefix, data, _ := strings.Cut(word, "1")
	sum := uint32(1)
	step := func(v uint32) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ v
		for i, g := range [...]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for i := range len(prefix) {
		step(uint32(prefix[i]) >> 5)
	}
	step(0)
	for i := range len(prefix) {
		step(uint32(prefix[i]) & 31)
	}
	for i := range len(data) {
		d := strings.IndexByte(digits, data[i])
		if d < 0 {
			return false
		}
		step(uint32(d))
	}
	return len(data) >= 39 && (sum == 1 || sum == 0x2bc830a3)
}

// ethereum reports whether 40 digits are an address. Letters of one case carry no checksum;
// letters of both must be as EIP-55 wants them.
func ethereum(word string) bool {
	if strings.Trim(strings.ToLower(word), "0123456789abcdef") != "" || strings.Trim(word, word[:1]) == "" {
		return false
	}
	lower := strings.ToLower(word)
	if word == lower || word == strings.ToUpper(word) {
		return true
	}
	h := sha3.NewLegacyKeccak256()
	h.Write([]byte(lower))
	sum := h.Sum(nil)
	for i := range len(word) {
		if c := lower[i]; c >= 'a' {
			if high := sum[i/2]>>(4*(1-i%2))&8 != 0; high != (word[i] != c) {
				return false
			}
		}
	}
	return true
}

// monero reports whether a word is an address of Monero: blocks of 11 base 58 digits for 8
// bytes each, and a last one of 7 digits for 5 bytes. The last four bytes are the beginning of
// the Keccak hash of the others.
func monero(word string) bool {
	var b []byte
	for len(word) > 0 {
		digits, size := 11, 8
		if len(word) < digits {
			digits, size = 7, 5
		}
		n := base58(word[:digits])
		if n == nil || n.BitLen() > 8*size {
			return false
		}
		b = append(b, n.FillBytes(make([]byte, size))...)
		word = word[digits:]
	}
	h := sha3.NewLegacyKeccak256()
	h.Write(b[:len(b)-4])
	return (b[0] == 18 || b[0] == 19 || b[0] == 42) && string(h.Sum(nil)[:4]) == string(b[len(b)-4:])
}

// ibanSizes are the lengths of account numbers by country (ISO 13616).
const ibanSizes = " AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22" +
	" CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18" +
	" GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26" +
	" IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25" +
	" MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28" +
	" PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 SV28 TN24 TR26 UA29 VA22 VG24 XK20 "

// iban returns the bank account number at the start of text, written with or without spaces
// between groups, or "". Its digits must give the remainder 1 when divided by 97.
func iban(text []byte) string {
	if len(text) < 15 || text[0] < 'A' || text[0] > 'Z' {
		return ""
	}
	i := strings.Index(ibanSizes, " "+string(text[:2]))
	if i < 0 {
		return ""
	}
	size := int(ibanSizes[i+3]-'0')*10 + int(ibanSizes[i+4]-'0')
	number := make([]byte, 0, size)
	at := 0
	for ; at < len(text) && len(number) < size; at++ {
		switch c := text[at]; {
		case '0' <= c && c <= '9' || 'A' <= c && c <= 'Z':
			number = append(number, c)
		case c != ' ' || at == 0 || text[at-1] == ' ':
			return ""
		}
	}
	if len(number) < size || at < len(text) && alphanumeric(text[at]) {
		return ""
	}
	rest := 0
	for i := range number {
		if c := number[(i+4)%size]; c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	if rest != 1 {
		return ""
	}
	return string(number)
}
