package dcc

import "strconv"

// maxRef is the number of bytes in the name of a character reference.
const maxRef = 16

// isRefByte reports whether c may stand in a character reference of which n
// bytes were read, "&" included.
func isRefByte(c byte, n int) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '#' && n == 1
}

// decodeRef returns the byte that a character reference stands for; ref is
// what stands between "&" and its end. Unknown names are byte 0, a lone "&" is
// itself.
//
// Source: docs/specs/dcc.md#character-references.
func decodeRef(ref []byte) byte {
	if len(ref) == 0 {
		return '&'
	}
	if ref[0] == '#' {
		digits, base := string(ref[1:]), 10
		if len(digits) > 0 && (digits[0] == 'x' || digits[0] == 'X') {
			digits, base = digits[1:], 16
		}
		v, err := strconv.ParseUint(digits, base, 64)
		switch {
		case err != nil && v == 0:
			return 0
		case v > 255:
			return 255
		}
		return byte(v)
	}
	return references[string(ref)]
}

// references are the names that DCC clients know: those of HTML 4 for Latin-1
// letters, and some that stand for a blank.
var references = map[string]byte{
	"quot": '"', "lt": '<', "gt": '>', "apos": '\'',
	"nbsp": 0xA0, "iexcl": 0xA1, "uml": 0xA8, "copy": 0xA9, "laquo": 0xAB, "shy": 0xAD,
	"reg": 0xAE, "macr": 0xAF, "acute": 0xB4, "cedil": 0xB8, "raquo": 0xBB, "iquest": 0xBF,
	"Agrave": 0xC0, "Aacute": 0xC1, "Acirc": 0xC2, "Atilde": 0xC3, "Auml": 0xC4, "Aring": 0xC5,
	"AElig": 0xC6, "Ccedil": 0xC7, "Egrave": 0xC8, "Eacute": 0xC9, "Ecirc": 0xCA, "Euml": 0xCB,
	"Igrave": 0xCC, "Iacute": 0xCD, "Icirc": 0xCE, "Iuml": 0xCF, "ETH": 0xD0, "Ntilde": 0xD1,
	"Ograve": 0xD2, "Oacute": 0xD3, "Ocirc": 0xD4, "Otilde": 0xD5, "Ouml": 0xD6, "Oslash": 0xD8,
	"Ugrave": 0xD9, "Uacute": 0xDA, "Ucirc": 0xDB, "Uuml": 0xDC, "Yacute": 0xDD, "THORN": 0xDE,
	"szlig": 0xDF, "agrave": 0xE0, "aacute": 0xE1, "acirc": 0xE2, "atilde": 0xE3, "auml": 0xE4,
	"aring": 0xE5, "aelig": 0xE6, "ccedil": 0xE7, "egrave": 0xE8, "eacute": 0xE9, "ecirc": 0xEA,
	"euml": 0xEB, "igrave": 0xEC, "iacute": 0xED, "icirc": 0xEE, "iuml": 0xEF, "eth": 0xF0,
	"ntilde": 0xF1, "ograve": 0xF2, "oacute": 0xF3, "ocirc": 0xF4, "otilde": 0xF5, "ouml": 0xF6,
	"oslash": 0xF8, "ugrave": 0xF9, "uacute": 0xFA, "ucirc": 0xFB, "uuml": 0xFC, "yacute": 0xFD,
	"thorn": 0xFE, "yuml": 0xFF,
	"hellip": ' ', "emsp": ' ', "ensp": ' ', "thinsp": ' ', "zwj": ' ', "ldquo": ' ', "rdquo": ' ',
	"bdquo": ' ', "lsquo": ' ', "rsquo": ' ', "sbquo": ' ', "lsaquo": ' ', "rsaquo": ' ', "bull": ' ',
	"dagger": ' ',
}
