package scan

// Digit64 returns the value of a base64 digit; padding in an odd place is one.
func Digit64(c byte) (byte, bool) { v := digits64[c]; return v, v != noDigit }

// noDigit marks bytes that are not digits in the tables.
const noDigit = 0xFF

var digits64 = func() (table [256]byte) {
	for i := range table {
		table[i] = noDigit
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		table[c] = byte(i)
	}
	table['='] = 29
	return table
}()

// Hex returns the value of a hexadecimal digit, and false for another byte.
func Hex(c byte) (byte, bool) { v := digits16[c]; return v, v != noDigit }

var digits16 = func() (table [256]byte) {
	for i := range table {
		table[i] = noDigit
	}
	for i, c := range []byte("0123456789abcdef") {
		table[c] = byte(i)
	}
	for i, c := range []byte("ABCDEF") {
		table[c] = byte(10 + i)
	}
	return table
}()

// What [Base64] holds for bytes that are no digits.
const (
	Base64Skip = 0xFF // white space
	Base64Bad  = 0xFE // foreign
	Base64Pad  = 0xFD // padding
)

// Base64 maps a byte to its six bits or one of the constants above. It must not be
// changed.
var Base64 = func() (table [256]byte) {
	for i := range table {
		table[i] = Base64Bad
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		table[c] = byte(i)
	}
	table['='] = Base64Pad
	for _, c := range []byte(" \t\r\n") {
		table[c] = Base64Skip
	}
	return table
}()
