package mail

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestGuess checks that undeclared charsets are recognised by the letters that are frequent in their languages.
func TestGuess(t *testing.T) {
	for _, test := range [][2]string{
		{"koi8-u", "Завтра утром паром не отходит, потому что на реке лёд."},
		{"windows-1251", "Завтра утром паром не отходит, потому что на реке лёд."},
		{"iso-8859-5", "Завтра утром паром не отходит, потому что на реке лёд."},
		{"koi8-u", "Завтра вранці пором не відходить, бо на річці крига."},
		{"iso-8859-7", "Αύριο το πρωί το πλοίο δεν φεύγει, γιατί ο άνεμος είναι δυνατός."},
		{"windows-1255", "מחר בבוקר המעבורת לא יוצאת כי הרוח חזקה מאוד."},
		{"windows-1256", "غدا صباحا لا تغادر العبارة لأن الريح قوية جدا."}, {"gb18030", "明天早上没有船，因为风太大了，请大家后天再来。"},
		{"big5", "明天早上沒有船，因為風太大了，請大家後天再來。"},
		{"shift_jis", "明日の朝は風が強いので、船は出ません。"}, {"euc-jp", "明日の朝は風が強いので、船は出ません。"}, {"euc-kr", "내일 아침에는 바람이 세서 배가 떠나지 않습니다."},
		{"iso-8859-1", "Le café est fermé."},
		{"windows-1252", "Le café – fermé à l’été – ne sert plus rien à « personne »."},
		{"windows-1252", "Größere Änderungen an Bühne und Tür, Übermäßiges – für später."},
		{"windows-1252", "“Ça va” – ÀÉÈÊ – “déjà”"},
	} {
		data := mailtest.Must(mailtest.Must(htmlindex.Get(test[0])).NewEncoder().String(test[1]))
		want := test[0]
		if want == isLatin {
			want = isWestern // of a short text
		}
		for _, text := range []string{data, "Dear Ann, " + data, "<p>" + data + "</p>"} {
			if got := guess([]byte(text)); got != want {
				t.Errorf("%q in %s is taken for %q", test[1], test[0], got)
			}
		}
	}
	const ascii = "nothing but words of English, one after another, for as long as it takes. "
	long := strings.Repeat(ascii, 30)
	for text, want := range map[string]string{
		long: "", long + "\xe9" + long: isLatin, "\xe9" + long: isLatin, "\x80" + long + "\xe9": isLatin,
		long + "é" + strings.Repeat(ascii, 3): isUTF8, "": isWestern,
	} {
		if got := guess([]byte(text)); got != want {
			t.Errorf("%.20q... is taken for %q, want %q", text, got, want)
		}
	}
}

func FuzzGuess(f *testing.F) {
	f.Add([]byte("\xa4\xa2\xa4\xa4\xa4\xa6\xa4\xa8\xa4\xaa\xa4\xab"))
	f.Add([]byte("\x82\xa0\x82\xa2 \xcf\xd4\xc5\xc1 \xa4\x40\xa4\x41"))
	f.Fuzz(func(t *testing.T, text []byte) {
		name := guess(text)
		if name == "" {
			return
		}
		if _, err := htmlindex.Get(name); err != nil {
			t.Fatalf("%q is taken for %q: %v", text, name, err)
		}
	})
}

// TestWestern compares text in windows-1252, within a limit, with the characters that fit one by one.
func TestWestern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := append([]byte{0x80}, rapid.SliceOf(rapid.SampledFrom([]byte("abc \x80\x81\xe4"))).Draw(t, "data")...)
		if rapid.Bool().Draw(t, "long") {
			data = append(bytes.Repeat([]byte{'x'}, pace.Step), data...)
		}
		limit := rapid.IntRange(0, 4*len(data)).Draw(t, "limit")
		var want []byte
		for _, c := range data {
			if r := charmap.Windows1252.DecodeByte(c); len(want)+utf8.RuneLen(r) <= limit {
				want = utf8.AppendRune(want, r)
			} else {
				break
			}
		}
		if got := windows1252(data, limit, nil); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes within %d: %d bytes, want %d", len(data), limit, len(got), len(want))
		}
	})
}
