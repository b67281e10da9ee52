package pyzor

// The character sets that an escape sequence may choose.
const (
	setASCII = iota
	setRoman // JIS X 0201, Latin half
	setKana  // JIS X 0201, half-width katakana
	setJIS   // JIS X 0208
	setJIS2  // JIS X 0212
	setKorea // KS X 1001
)

// setOf returns the set that an escape sequence, without ESC, selects in a codec, and whether it
// selects the shifted set.
func setOf(codec, escape string) (set int, shifted, ok bool) {
	japanese := codec != "iso2022_kr"
	switch escape {
	case "(B":
		return setASCII, false, true
	case ")B":
		return setASCII, true, true
	case "(J":
		return setRoman, false, japanese
	case ")J":
		return setRoman, true, japanese
	case "(I":
		return setKana, false, codec == "iso2022_jp_ext"
	case "$@", "$B", "$(@", "$(B":
		return setJIS, false, japanese
	case "$)@", "$)B":
		return setJIS, true, japanese
	case "$D", "$(D":
		return setJIS2, false, codec == "iso2022_jp_1" || codec == "iso2022_jp_ext"
	case "$C", "$(C":
		return setKorea, false, !japanese
	case "$)C":
		return setKorea, true, !japanese
	}
	return 0, false, false
}

// iso2022 decodes the charsets that switch sets by escape sequences, and HZ,
// which does so by tildes.
func (s *sink) iso2022(b []byte, codec string) {
	if codec == "hz" {
		s.hz(b)
		return
	}
	var set [2]int // plain and shifted
	place, through := 0, false
	for i := 0; i < len(b); {
		if s.over(1) {
			return
		}
		c := b[i]
		s.at = -1
		switch {
		case through:
			s.put(rune(c))
			through = !(c >= 'A' && c <= 'Z' || c == '@')
			i++
		case c == 0x1b:
			n := s.escape(b[i:], codec, &set)
			if n == 0 {
				s.put(0x1b)
				through = true
				n = 1
			}
			i += n
		case codec == "iso2022_kr" && (c == 0x0e || c == 0x0f):
			place = int(0x0f - c)
			i++
		case c == '\n':
			if set == [2]int{} {
				s.at = s.size - len(b) + i
			}
			s.put('\n')
			place = 0
			i++
		case c >= 0x80:
			s.error()
			i++
		case c < 0x20 || set[place] == setASCII:
			s.put(rune(c))
			i++
		default:
			n := s.fromSet(b[i:], set[place])
			i += n
		}
	}
}

// escape reads an escape sequence and returns its length; 0 for an ESC that begins none.
func (s *sink) escape(b []byte, codec string, set *[2]int) int {
	if len(b) < 2 {
		s.error()
		return 1
	}
	switch b[1] {
	case '(', ')', '$', '.', '&':
	default:
		return 0
	}
	n := 0
	for i := 1; i < 16; i++ {
		if i >= len(b) {
			s.error() // cut off
			return len(b)
		}
		if b[i] >= 'A' && b[i] <= 'Z' || b[i] == '@' {
			n = i + 1
			break
		}
		// The announcement of a later edition of JIS X 0208 goes before its sequence.
		if codec != "iso2022_kr" && i+1 < len(b) && b[i] == '&' && b[i+1] == '@' {
			i += 2
		}
	}
	if n == 0 {
		s.error()
		return 1
	}
	sequence := string(b[1:n])
	if n == 6 && codec != "iso2022_kr" && string(b[3:6]) == "\x1b$B" {
		sequence = "$B"
	}
	chosen, shifted, ok := setOf(codec, sequence)
	if !ok {
		s.error()
		return n
	}
	if shifted {
		set[1] = chosen
	} else {
		set[0] = chosen
	}
	return n
}

// fromSet decodes one character of a set and returns its size.
func (s *sink) fromSet(b []byte, set int) int {
	if set == setRoman || set == setKana {
		c := rune(b[0])
		switch {
		case set == setKana && c >= 0x21 && c <= 0x5f:
			s.put(c - 0x21 + 0xff61)
		case set == setKana:
			s.error()
		case c == '\\':
			s.put('¥')
		case c == '~':
			s.put('‾')
		default:
			s.put(c)
		}
		return 1
	}
	if len(b) < 2 {
		s.error()
		return 1
	}
	lead, trail := b[0]|0x80, b[1]|0x80
	text := ""
	switch {
	case b[1] >= 0x80:
	case set == setJIS2:
		if r := jisX0212(lead, trail); r != 0 {
			text = string(r)
		}
	case set == setKorea:
		text = codecs["euc_kr"]().ofPair(lead, trail)
	case lead == 0xa1 && trail == 0xc0:
		text = `\`
	default:
		text = codecs["euc_jp"]().ofPair(lead, trail)
	}
	if len(text) == 0 {
		s.error()
	}
	s.puts(text)
	return 2
}

// hz decodes HZ: GB 2312 between "~{" and "~}".
func (s *sink) hz(b []byte) {
	m := codecs["gb2312"]()
	chinese := false
	for i := 0; i < len(b); {
		if s.over(1) {
			return
		}
		c := b[i]
		if s.at = s.size - len(b) + i; chinese {
			s.at = -1
		}
		switch {
		case c == '~':
			if i+1 == len(b) {
				s.error()
				return
			}
			switch d := b[i+1]; {
			case d == '~' && !chinese:
				s.put('~')
			case d == '{' && !chinese:
				chinese = true
			case d == '\n' && !chinese:
			case d == '}' && chinese:
				chinese = false
			default:
				s.error()
				i--
			}
			i += 2
		case c >= 0x80:
			s.error()
			i++
		case !chinese:
			s.put(rune(c))
			i++
		case i+1 == len(b):
			s.error()
			return
		default:
			text := m.ofPair(c|0x80, b[i+1]|0x80)
			if text == "" || b[i+1] >= 0x80 {
				s.error()
				i++
				continue
			}
			s.puts(text)
			i += 2
		}
	}
}
