package signature

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A spelling is digits in groups, and how they are written.
type spelling struct {
	begin  string // before the first group
	plus   bool
	groups []string
	signs  []string // between them, as written
	end    string
}

func (s *spelling) String() string {
	var b strings.Builder
	b.WriteString(s.begin)
	for i, g := range s.groups {
		if i > 0 {
			b.WriteString(s.signs[i-1])
		}
		b.WriteString(g)
	}
	return b.String() + s.end
}

// number says by docs/specs/facets.md#contacts which telephone number a spelling is.
func (s *spelling) number() string {
	digits := strings.Join(s.groups, "")
	n, groups := len(digits), len(s.groups)
	var sizes []int
	for _, g := range s.groups {
		sizes = append(sizes, len(g))
	}
	var signs []string // separators but for spaces and parentheses, " " where there is none
	for _, x := range s.signs {
		sign := strings.Trim(x, " ()")
		if len(sign) > 1 {
			return "" // two of them: the number ends before
		}
		signs = append(signs, (sign + " ")[:1])
	}
	if n < 9 || n > 15 || s.end != "" && strings.ContainsAny(s.end[:1], "x1_=/#&%$@\\") {
		return ""
	}
	if s.plus {
		if digits[0] == '0' || groups > 2 && slices.Contains(signs[1:],
			".") && strings.Trim(strings.Join(signs[1:], ""), ".") != "" {
			return ""
		}
		return withoutCode(digits)
	}
	if digits[:2] == "00" {
		if digits[2] == '0' || groups == 1 {
			return ""
		}
		return withoutCode(digits[2:])
	}
	one := func(signs []string, first int) bool { // separator after the first two groups
		rest := signs[1:]
		for _, x := range rest {
			if x != rest[0] || x == "/" {
				return false
			}
		}
		return signs[0] != "." || first == 3 || len(signs) != 2 && (len(rest) == 0 || rest[0] == ".")
	}
	local, at := sizes, signs
	area := digits
	if n == 11 && sizes[0] == 1 && digits[0] == '1' {
		local, at, area = sizes[1:], signs[1:], digits[1:]
	}
	if slices.Equal(local, []int{3, 3, 4}) && area[0] >= '2' && one(at, 3) {
		return area
	}
	if digits[0] == '0' && n <= 12 && groups >= 2 && groups <= 5 && sizes[0] >= 2 && sizes[0] <= 6 &&
		!slices.Equal(sizes, []int{5, 4}) && one(signs, sizes[0]) {
		return digits[1:]
	}
	return ""
}

// withoutCode takes the code of a country from a number, by the zones of ITU-T E.164.
func withoutCode(digits string) string {
	code := int(digits[0]-'0')*10 + int(digits[1]-'0')
	size := 3
	for _, two := range [][2]int{{20, 20}, {27, 27}, {30, 34}, {36, 36}, {39, 41}, {43, 49}, {51, 58}, {60, 66},
		{81, 82}, {84, 84}, {86, 86}, {90, 95}, {98, 98}} {
		if two[0] <= code && code <= two[1] {
			size = 2
		}
	}
	if code/10 == 1 || code/10 == 7 {
		size = 1
	}
	return strings.TrimLeft(digits[size:], "0")
}

// TestPhonesAsSpecified holds what is read as a telephone number to the specification, for
// random digits in random groups.
func TestPhonesAsSpecified(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	signs := []string{" ", " ", "-", "-", ".", ".", "/", " - ", ") ", " (", "(", "--", " -.", " . ", ")-"}
	shapes := [][]int{{3, 3, 4}, {1, 3, 3, 4}, {5, 4}, {4, 5}, {2, 3, 4}, {3, 6}, {3, 7}, {2, 2, 2, 2, 2},
		{2, 2, 2, 2, 2, 2}, {6, 4}, {7, 3}, {9}, {10}, {15}, {16}, {8}, {5, 3, 3}, {5, 6}, {4, 4, 4}, {4, 4, 5},
		{2, 8}, {1, 8}}
	found := make(map[string]int)
	for range rounds(400_000) {
		var s spelling
		sizes := slices.Clone(shapes[rng.IntN(len(shapes))])
		if rng.IntN(4) == 0 {
			sizes = nil
			for range 1 + rng.IntN(6) {
				sizes = append(sizes, 1+rng.IntN(6))
			}
		}
		same := signs[rng.IntN(len(signs))]
		for i, size := range sizes {
			var g []byte
			for range size {
				g = append(g, byte('0'+rng.IntN(10)))
			}
			s.groups = append(s.groups, string(g))
			switch {
			case i == 0:
			case rng.IntN(3) == 0:
				s.signs = append(s.signs, signs[rng.IntN(len(signs))])
			default:
				s.signs = append(s.signs, same)
			}
		}
		first := []byte(s.groups[0])
		switch rng.IntN(4) {
		case 0:
			first[0] = '0'
		case 1:
			copy(first, "00")
		}
		if s.groups[0] = string(first); s.groups[0] == "0" {
			continue // whether 0 0 begins with 00 is not said
		}
		switch rng.IntN(8) {
		case 0:
			s.begin, s.plus = "+", true
		case 1:
			s.begin, s.plus = "(+", true
		case 2:
			s.begin = "("
		case 3:
			s.begin, s.plus = "+(", true
		}
		s.end = []string{"", "", "", ".", ", now", ") x", "x", "1", "_", "=", "/", "#", "&", "%", "$", "@", "\\", "-",
			"-x", "é"}[rng.IntN(20)]
		if s.end == "1" {
			s.groups[len(s.groups)-1] += "1" // one digit more is part of it
			s.end = ""
		}
		want := s.number()
		text := s.String()
		got, size := phone([]byte(text), ' ')
		if slices.ContainsFunc(s.signs, func(x string) bool { return len(strings.Trim(x, " ()")) > 1 }) {
			continue // it may end before two separators; what is beside them is another matter
		}
		if got != want || (size > 0) != (want != "") || want != "" && size != len(text)-len(s.end) {
			t.Fatalf("%q: %q of %d bytes, want %q", text, got, size, want)
		}
		kind := "none"
		switch {
		case want == "":
		case s.plus:
			kind = "plus"
		case strings.HasPrefix(strings.Join(s.groups, ""), "00"):
			kind = "00"
		case s.groups[0][0] == '0':
			kind = "zero"
		default:
			kind = "America"
		}
		found[kind]++
	}
	for _, kind := range []string{"none", "plus", "00", "zero", "America"} {
		if found[kind] < rounds(1000) {
			t.Errorf("%d numbers of kind %q", found[kind], kind)
		}
	}
}

// TestPhoneBounds: digits of other scripts, gaps, and what stands before a number.
func TestPhoneBounds(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"+1 555        010 9999", "5550109999"}, // eight blanks
		{"+1 555         010 9999", ""},
		{"+1234567", ""}, {"+12345678", ""}, {"+123456789", "23456789"}, {"+１２３４５６７８９", "23456789"},
		{"+𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗", "23456789"}, {"+𝟘𝟙𝟚𝟛𝟜𝟝𝟞𝟟𝟠", ""}, {"+𝟿𝟿𝟿𝟿𝟿𝟿𝟿𝟿𝟿", "999999"}, {"+２１２４５６７８９", "456789"},
		{"０１６３２ 960 000", "1632960000"}, {"0１632 960 000", "1632960000"}, {"５５５-010-9999", "5550109999"},
		{"5５５-010-9999", "5550109999"}, {"55５-010-9999", "5550109999"},
		{"555‐010‑9999", "5550109999"}, {"555‒010–9999", "5550109999"}, {"555—010−9999", "5550109999"},
		{"555\u00a0010\u20099999", "5550109999"}, {"555\u202f010\t9999", "5550109999"}, {"555\n010 9999", ""},
		{"555,010,9999", ""},
		{"++15550109999", ""}, {"+1+5550109999", ""}, {"+ 1 555 010 9999", "5550109999"},
		{"+  1 555 010 9999", "5550109999"}, {"+   1 555 010 9999", ""}, {"+é15550109999", ""},
		{"(555) 010-9999", "5550109999"}, {"((555) 010-9999", "5550109999"}, {"(((555) 010-9999", "5550109999"},
		{"((((555) 010-9999", ""},
		{"155-010-9999", ""}, {"255-010-9999", "2550109999"}, {"1 255-010-9999", "2550109999"},
		{"2 255-010-9999", ""}, {"1 155-010-9999", ""},
	} {
		if got, _ := phone([]byte(tt.text), ' '); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
	const number = "+15550109999"
	for c := byte(1); c < 0x80; c++ {
		_, size := phone([]byte(number), c)
		free := c <= ' ' || strings.IndexByte("!\"'()*+,:;<>?[]^`{|}~\x7f", c) >= 0
		if (size > 0) != free {
			t.Errorf("behind %q it is a number: %v", c, size > 0)
		}
	}
}

// TestAccountsAsSpecified: an account number is one in the length of its country whose
// digits have the remainder 1 by 97, in groups or not.
func TestAccountsAsSpecified(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	sum := func(number string) int64 {
		var digits strings.Builder
		for _, c := range number[4:] + number[:4] {
			if c >= 'A' {
				fmt.Fprint(&digits, c-'A'+10)
			} else {
				digits.WriteRune(c)
			}
		}
		n, _ := new(big.Int).SetString(digits.String(), 10)
		return n.Mod(n, big.NewInt(97)).Int64()
	}
	for _, country := range strings.Fields(ibanSizes) {
		var size int
		if _, err := fmt.Sscanf(country[2:], "%d", &size); err != nil {
			t.Fatal(err)
		}
		number := country[:2] + "00"
		for len(number) < size {
			number += string("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[rng.IntN(36)])
		}
		number = fmt.Sprintf("%s%02d%s", number[:2], 98-sum(number), number[4:])
		if sum(number) != 1 {
			t.Fatalf("%s has the sum %d", number, sum(number))
		}
		grouped := ""
		for i, c := range number {
			if i > 0 && i%4 == 0 {
				grouped += " "
			}
			grouped += string(c)
		}
		for text, want := range map[string]string{
			number: number, grouped: number, number + ".": number, grouped + " x": number, number + "\x80": number,
			number + "0": "", number + "x": "", number[:size-1]: "", number[:4] + "  " + number[4:]: "",
			number[:6] + "-" + number[6:]: "", strings.ToLower(number[:1]) + number[1:]: "",
			"XX" + number[2:]: "", " " + number: "", strings.ToLower(number): "",
		} {
			if got := iban([]byte(text)); got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
		at := 4 + rng.IntN(size-4)
		changed := number[:at] + string('0'+(number[at]-'0'+1)%10) + number[at+1:]
		if got := iban([]byte(changed)); (got != "") != (sum(changed) == 1) {
			t.Errorf("%s with the sum %d: %q", changed, sum(changed), got)
		}
	}
	if iban([]byte("NO9386011117947")) == "" || iban([]byte("NO938601111794")) != "" || iban(nil) != "" {
		t.Error("the shortest number")
	}
}

// TestWalletForms: a wallet is a word of the right letters, length and case.
func TestWalletForms(t *testing.T) {
	const mixed = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	for text, want := range map[string]string{
		mixed: strings.ToLower(mixed), "0x" + strings.ToUpper(mixed[2:]): strings.ToLower(mixed),
		"0X" + mixed[2:]: "", mixed[:41]: "", mixed + "0": "",
		"0x" + strings.Repeat("1", 40): "", "0x" + strings.Repeat("1", 39) + "2": "0x" + strings.Repeat("1",
			39) + "2", "0x" + strings.Repeat("1", 39) + "g": "",
		"ltc1qxkrh7q35h5w9n5u36aq0x4j34t4vtpnj2r8htq": "ltc1qxkrh7q35h5w9n5u36aq0x4j34t4vtpnj2r8htq",
		"LTC1QXKRH7Q35H5W9N5U36AQ0X4J34T4VTPNJ2R8HTQ": "ltc1qxkrh7q35h5w9n5u36aq0x4j34t4vtpnj2r8htq",
		"ltC1qxkrh7q35h5w9n5u36aq0x4j34t4vtpnj2r8htq": "",
	} {
		if got := wallet(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	// Of both cases each letter must be of the right one.
	for i := 2; i < len(mixed); i++ {
		if c := mixed[i]; c > '9' {
			if other := mixed[:i] + string(c^0x20) + mixed[i+1:]; wallet(other) != "" {
				t.Errorf("%s is taken for %s", other, mixed)
			}
		}
	}
	for _, w := range append(slices.Clone(wallets), madeWallets...) {
		if w[1] == 'x' || w[0] > 'Z' {
			continue
		}
		if got := wallet(strings.ToLower(w)); got != "" {
			t.Errorf("%s in lower case: %s", w, got)
		}
		for _, longer := range []string{w + "1", w[:len(w)-1], "1" + w} {
			if got := wallet(longer); got != "" {
				t.Errorf("%s beside %s: %s", longer, w, got)
			}
		}
	}
}
