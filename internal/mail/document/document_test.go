package document

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/ascii85"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

type entry struct{ name, data string }

func zipped(entries ...entry) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		f, err := w.Create(e.name)
		if err == nil {
			_, err = f.Write([]byte(e.data))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

func tarred(entries ...entry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o600, Size: int64(len(e.data))}); err != nil {
			panic(err)
		}
		_, _ = w.Write([]byte(e.data))
	}
	_ = w.Close()
	return b.Bytes()
}

func flate(s string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.String()
}

// wordFile is a document of Word with a link.
func wordFile(text string) []byte {
	return zipped(
		entry{"[Content_Types].xml", "<Types/>"},
		entry{"word/_rels/document.xml.rels",
			`<Relationships><Relationship Id="r1" Type="http://schemas.example/hyperlink"` +
				` Target="http://offers.example/now" TargetMode="External"/></Relationships>`},
		entry{"word/document.xml",
			`<w:document><w:body><w:p><w:r><w:t>` + text +
				`</w:t></w:r></w:p><w:p><w:t>Second &amp; last</w:t></w:p></w:body></w:document>`},
		entry{"word/theme/theme1.xml", "<theme>shared by millions</theme>"},
		entry{"word/media/image1.png", "a picture"},
	)
}

// plainPDF has its objects as they are, compressedPDF in streams, with a font whose codes
// are no characters.
const plainPDF = "%PDF-1.4\n1 0 obj\n<< /Type /Page /Annots " +
	"[<< /A << /S /URI /URI (http://offers.example/\\(now\\)) >> >>] >>\nendobj\n" +
	"2 0 obj\n<< /Length 99 >>\nstream\nBT /F1 12 Tf 72 700 Td (Your invoice) Tj " +
	"0 -14 Td [(is ov) 20 (er) -300 (due)] TJ T* <63616c6c> ' ET\n" +
	"endstream\nendobj\ntrailer\n"

func compressedPDF() string {
	stream := func(number int, dict, data string) string {
		data = flate(data)
		return fmt.Sprintf("%d 0 obj\n<<%s/Filter/FlateDecode/Length %d>>stream\r\n%s\nendstream\nendobj\n", number,
			dict, len(data), data)
	}
	objects := []string{"<</Type/Page/Resources<</Font<</F1 11 0 R /F2 12 0 R>>>>>>",
		"<</Type/Font/ToUnicode 20 0 R>>", "<</A<</URI(https://pay.example/x)>>>>"}
	head, at := "", 0
	for i, o := range objects {
		head += fmt.Sprintf("%d %d ", 10+i, at)
		at += len(o)
	}
	return "%PDF-1.7\n" + stream(1, "/Type/ObjStm/N 3/First "+fmt.Sprint(len(head)), head+strings.Join(objects, "")) +
		stream(20, "",
			"begincmap 1 beginbfchar <0001> <0043> endbfchar "+
				"2 beginbfrange <0002> <0004> <0061> <0005> <0006> [<006c> <00660066>] endbfrange endcmap") +
		stream(30, "", "BT /F1 9 Tf 1 0 0 1 72 700 Tm <000100020005> Tj 1 0 0 1 99 700 Tm [<0003> <0006>] TJ ET") +
		stream(31, "/Subtype/Image", "BT (not shown) Tj ET")
}

// filteredPDF returns a PDF with a text in a stream, and the names of the filters that undo what was done to it.
func filteredPDF(names string, encode ...func(string) string) string {
	text := "BT (Pay) Tj ET"
	for _, e := range encode {
		text = e(text)
	}
	return "%PDF-1.4\n1 0 obj\n<</Filter " + names + " /Length 9>>stream\n" + text + "\nendstream endobj\n"
}

func ascii85Of(s string) string {
	out := make([]byte, ascii85.MaxEncodedLen(len(s)))
	return string(out[:ascii85.Encode(out, []byte(s))]) + "~>"
}

func hexOf(s string) string { return fmt.Sprintf("% x >", s) }

// lzwOf encodes with codes of nine bits alone, which stand for single bytes.
func lzwOf(s string) string {
	const clear, end, size = 256, 257, 9
	out, bits, n := []byte(nil), 0, 0
	for _, code := range append(append([]int{clear}, codesOf(s)...), end) {
		for bits, n = bits<<size|code, n+size; n >= 8; n -= 8 {
			out = append(out, byte(bits>>(n-8)))
		}
	}
	return string(append(out, byte(bits<<(8-n))))
}

func codesOf(s string) (codes []int) {
	for _, c := range []byte(s) {
		codes = append(codes, int(c))
	}
	return codes
}

// wordOf1997 returns a document of Word with a text in two pieces, of one and of two bytes a character. Streams of
// fewer than small bytes are in small sectors. The table of pieces has 40 bytes if small is 100, otherwise many.
func wordOf1997(small int) []byte {
	const sector = 512
	le := binary.LittleEndian
	put := func(at []byte, numbers ...uint32) {
		for i, n := range numbers {
			le.PutUint32(at[4*i:], n)
		}
	}
	const table, folder, pieces, smallTable, text = 0, 1, 2, 3, 4 // sectors
	file := make([]byte, sector*8)
	copy(file, compoundMagic)
	le.PutUint16(file[0x1e:], 9)
	put(file[0x30:], folder)
	put(file[0x38:], uint32(small), smallTable)
	put(file[0x4c:], table)
	at := func(n int) []byte { return file[sector*(n+1):] }
	const end = 0xfffffffe
	put(at(table), end, end, end, end, 5, 6, end)
	entry := func(i int, name string, kind byte, first, size uint32) {
		e := at(folder)[128*i:]
		for k, c := range []byte(name) {
			e[2*k] = c
		}
		e[66] = kind
		put(e[116:], first, size)
	}
	inFile, ofPieces := uint32(pieces), uint32(1<<20)
	if small == 100 {
		ofPieces = 40
	}
	entry(0, "Root Entry", 5, pieces, sector)
	entry(1, "WordDocument", 2, text, 1<<20)
	if ofPieces == 40 {
		inFile = 1 // the second small sector
		put(at(smallTable), end, end)
	}
	entry(2, "1Table", 2, inFile, ofPieces)
	plc := at(pieces)[64*int(inFile%2):]
	copy(plc, "\x01\x01\x00\xff\x02\x1c\x00\x00\x00")
	put(plc[9:], 0, 12, 17)
	put(plc[9+12+2:], 0x420*2|1<<30)
	put(plc[9+12+8+2:], 0x3fa)
	head := at(text)
	copy(head, "\xec\xa5")
	le.PutUint16(head[0x0a:], 0x0200)
	put(head[0x1a2:], 0, 37)
	copy(head[0x420:], "Pay now\rat \xfc")
	copy(head[0x3fa:], "\x13\x00\x14\x00\xa9\x03\x1e\x00x\x00") // over the end of a sector
	return file
}

// rtfLetter has a text that is not shown, and a link.
const rtfLetter = `{\rtf1\ansi{\info{\title x}}Pa{\v hidden}y \v x\v0 now\par ` +
	`{\field{\*\fldinst{ HYPERLINK "http://a.example/" }}{\fldrslt }}}`

func open(t testing.TB, name string, data []byte) []Item {
	t.Helper()
	return Open(t.Context(), name, data, &Budget{Bytes: 1 << 20, Items: 32})
}

func TestOpen(t *testing.T) {
	inner := zipped(entry{"a/readme.txt", "hello"}, entry{"page.HTM", "<p>hi"})
	tests := []struct {
		name string
		file string
		data []byte
		want []string
	}{
		{"zip", "x.zip", inner, []string{"readme.txt 0 hello", "page.HTM 2 <p>hi"}},
		{"zip in zip", "x.zip", zipped(entry{"in.zip", string(inner)}),
			[]string{"in.zip 0 " + string(inner), "readme.txt 0 hello", "page.HTM 2 <p>hi"}},
		{"gzip", "note.txt.gz", gzipped([]byte("hello")), []string{"note.txt 0 hello"}},
		{"tar", "x", tarred(entry{"a", "one"}, entry{`d\b`, "two"}), []string{"a 0 one", "b 0 two"}},
		{"tgz", "x.tgz", gzipped(tarred(entry{"a", "one"})), []string{"a 0 one"}},
		{"program", "x.jar", zipped(entry{"META-INF/MANIFEST.MF", "a: b"}, entry{"A.class", "code"}), nil},
		{"Word", "x.docx", wordFile("First <w:tab/>line"), []string{"image1.png 0 a picture",
			" 1 First  line\nSecond & last\n\n\nhttp://offers.example/now\n"}},
		{"Word, with a number", "x.docx", zipped(entry{"[Content_Types].xml", "x"},
			entry{"word/document2.xml", "<w:p>one</w:p>"}, entry{"word/footnotes.xml", "<w:p>two</w:p>"},
			entry{"word/styles.xml", "<w:p>three</w:p>"}), []string{" 1 one\n\ntwo\n\n"}},
		{"Word, elsewhere", "x.docx", zipped(entry{"[Content_Types].xml", "x"}, entry{"docProps/core.xml", "no"},
			entry{"w/d.xml", "<w:p>one</w:p>"}), []string{" 1 one\n\n"}},
		{"Word, a page within", "x.docx", zipped(entry{"[Content_Types].xml", "x"},
			entry{"word/document.xml", "<w:p><w:altChunk/></w:p>"}, entry{"word/chunk.html", "<p>one"}),
			[]string{"chunk.html 2 <p>one", " 1 \n\n"}},
		{"Word, not shown", "x.docx", zipped(entry{"[Content_Types].xml", "x"}, entry{"word/document.xml",
			`<w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr><w:r><w:t>Pa</w:t></w:r>` +
				`<w:r><w:rPr><w:vanish/></w:rPr><w:t>x</w:t></w:r>` +
				`<w:del><w:r><w:delText>x</w:delText></w:r></w:del><w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t>y</w:t></w:r>`}),
			[]string{" 1 Pay\n"}},
		{"drawings of Excel", "x.xlsx", zipped(entry{"[Content_Types].xml", "x"},
			entry{"xl/drawings/drawing1.xml", "<a:p><a:r><a:t>one</a:t></a:r></a:p>"}), []string{" 1 one\n\n"}},
		{"XML of Word", "x.doc", []byte("<?xml?><w:p><w:r><w:t>one</w:t></w:r></w:p><w:hlink w:dest=\"http://a.example/\">"),
			[]string{"x.doc 1 one\n\nhttp://a.example/\n\n"}},
		{"XML of Writer", "x.fodt", []byte("<?xml?><text:tracked-changes><text:p>x</text:p></text:tracked-changes>" +
			"<text:p>one</text:p>"), []string{"x.fodt 1 \none\n\n"}},
		{"XML for Excel", "x.xml", []byte("<?xml?><?mso-application progid=\"Excel.Sheet\"?><Row>one</Row>"),
			[]string{"x.xml 1 one\n\n"}},
		{"page for Word", "x.doc", []byte("\ufeff<html>one"), []string{"x.doc 2 \ufeff<html>one"}},
		{"page for nothing", "x.bin", []byte("<html>one"), nil},
		{"zip behind a program", "x.zip", append([]byte("MZ program "), inner...),
			[]string{"readme.txt 0 hello", "page.HTM 2 <p>hi"}},
		{"Excel", "x.xlsx", zipped(entry{"[Content_Types].xml", "x"},
			entry{"xl/sharedStrings.xml", "<sst><si><t>one</t></si><si><t>two</t></si></sst>"}), []string{" 1 one\ntwo\n\n"}},
		{"Writer", "x.odt", zipped(entry{"mimetype", "application/vnd.oasis.opendocument.text"},
			entry{"content.xml",
				`<office:text><text:p>Read <text:a xlink:href="http://a.example/">this</text:a></text:p></office:text>`}),
			[]string{" 1 Read \nhttp://a.example/\nthis\n\n"}},
		{"PDF", "x.pdf", []byte(plainPDF),
			[]string{"x.pdf 1 Your invoice\nis over due\ncall\n\nhttp://offers.example/(now)\n"}},
		{"compressed PDF", "x.pdf", []byte(compressedPDF()), []string{"x.pdf 1 Cal bff\n\nhttps://pay.example/x\n"}},
		{"PDF in ASCII85 and Flate", "x.pdf", []byte(filteredPDF("[ /ASCII85Decode /FlateDecode ]", flate, ascii85Of)),
			[]string{"x.pdf 1 Pay\n\n"}},
		{"PDF in hexadecimal", "x.pdf", []byte(filteredPDF("/ASCIIHexDecode", hexOf)), []string{"x.pdf 1 Pay\n\n"}},
		{"PDF in LZW", "x.pdf", []byte(filteredPDF("/LZWDecode", lzwOf)), []string{"x.pdf 1 Pay\n\n"}},
		{"PDF, compressed twice", "x.pdf", []byte(filteredPDF("[/FlateDecode/FlateDecode]", flate, flate)), nil},
		{"encrypted PDF", "x.pdf", []byte(plainPDF + "<< /Encrypt 9 0 R >>"), nil},
		{"RTF", "x.doc", []byte(rtfLetter), []string{"x.doc 1 Pay now\n\n HYPERLINK \"http://a.example/\" \n"}},
		{"Word of 1997", "x.doc", wordOf1997(5000), []string{"x.doc 1 Pay now\nat ü  Ω-x"}},
		{"Word of 1997, small streams", "x", wordOf1997(100), []string{"x 1 Pay now\nat ü  Ω-x"}},
		{"Word of 1997, encrypted", "x.doc", bytes.Replace(wordOf1997(100), []byte("\xec\xa5"), []byte("\xec\xa5\x00\x00"+
			"\x00\x00\x00\x00\x00\x00\x00\x03"), 1), nil},
		{"Word of 1997, cut", "x.doc", wordOf1997(5000)[:1100], nil},
		{"business card", "x.vcf", []byte("BEGIN:VCARD\r\nFN:Ann\r\nNOTE:call\\nme\r\nitem1.URL:http://a.example/"),
			[]string{"x.vcf 1 call\nme\nhttp://a.example/\n"}},
		{"business card in quoted-printable", "x.vcf", []byte("BEGIN:VCARD\r\nNOTE;ENCODING=QUOTED-PRINTABLE:c=61ll=\r\n" +
			" me=3D=\r\nX\r\nURL;QUOTED-PRINTABLE:http://a.example/=3F"), []string{"x.vcf 1 call me=X\nhttp://a.example/?\n"}},
		{"link of Windows", "x.url ", []byte("\r\n[InternetShortcut]\r\nURL=http://a.example/"),
			[]string{"x.url  1 \r\n[InternetShortcut]\r\nURL=http://a.example/"}},
		{"link of macOS", "x.webloc", []byte("<?xml?><string>http://a.example/</string>"),
			[]string{"x.webloc 1 <?xml?><string>http://a.example/</string>"}},
		{"XML", "x.xml", []byte("<?xml?><string>http://a.example/</string>"), nil},
		{"compressed SVG", "x.svgz", gzipped([]byte("<svg/>")), []string{"x.svg 2 <svg/>"}},
		{"text", "x.txt", []byte("hello"), nil},
		{"nothing", "x", nil, nil},
		{"damaged", "x.zip", inner[:40], nil},
	}
	for _, tt := range tests {
		var got []string
		for _, item := range open(t, tt.file, tt.data) {
			got = append(got, fmt.Sprintf("%s %d %s", item.Name, item.Kind, item.Data))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestBudget: bombs give nothing, and no more than the budget is ever decompressed.
func TestBudget(t *testing.T) {
	zeros := strings.Repeat("\x00", 4<<20)
	bomb := zipped(entry{"zeros", zeros})
	for range 3 {
		bomb = zipped(entry{"in.zip", string(bomb)}, entry{"zeros", zeros})
	}
	many := make([]entry, 900)
	for i := range many {
		many[i] = entry{fmt.Sprint(i), "x"}
	}
	for name, data := range map[string][]byte{
		"zip": bomb, "gzip": gzipped([]byte(zeros)), "tar": tarred(entry{"zeros", zeros}), "many": zipped(many...),
		"Word": zipped(entry{"[Content_Types].xml", "x"}, entry{"word/document.xml",
			strings.Repeat("<w:p>word</w:p>", 1<<18)}),
		"PDF": []byte("%PDF-1.4\n" +
			strings.Repeat("1 0 obj <</Filter/FlateDecode>> stream\n"+flate(strings.Repeat("BT (words) Tj ET ",
				1<<14))+"endstream endobj\n", 50)),
	} {
		b := Budget{Bytes: 1 << 20, Items: 16}
		items := Open(t.Context(), name, data, &b)
		size := 0
		for _, item := range items {
			size += len(item.Data)
		}
		if len(items) > 16 || size > 1<<20+len(data) || b.Bytes < 0 || b.Items < 0 {
			t.Errorf("%s: %d items of %d bytes, left %+v", name, len(items), size, b)
		}
	}
	if items := Open(t.Context(), "x", zipped(append(many, many...)...),
		&Budget{Bytes: 1 << 20, Items: 16}); items != nil {
		t.Errorf("%d items of an archive of too many", len(items))
	}
}

// TestHostile: time is linear, whatever a file repeats.
func TestHostile(t *testing.T) {
	for name, unit := range map[string]string{
		"objects": "1 0 obj ", "streams": "1 0 obj stream endstream ", "ends": "1 0 obj endobj ", "links": "/URI(",
		"strings": "(", "hex": "<a",
		"arrays": "[[", "fonts": "/Font<<", "references": "/Font 1 0 R ", "numbers": "1 1 1 ", "operators": "a ",
		"TJ": "(a)TJ ", "text": "BT ", "maps": "beginbfrange<00><ff>",
		"escapes": "(\\", "names": "/F1 1 0 R ",
		"tiny streams": "1 0 obj<</Filter/FlateDecode>>stream\n" + flate("x") + "endstream endobj ",
	} {
		for _, lead := range []string{"%PDF-1.4\n", "%PDF-1.4\n1 0 obj ", "%PDF-1.4\n1 0 obj stream\nBT Tj ",
			"%PDF-1.4\n1 0 obj stream\nbegincmap beginbfrange ", "%PDF-1.4\n1 0 obj /ObjStm stream\n"} {
			data := []byte(lead + strings.Repeat(unit, (1<<20)/len(unit)))
			start := time.Now()
			open(t, "x.pdf", data)
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("%s behind %q: %v", name, lead, d)
			}
		}
	}
}

func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, data := range map[string][]byte{"x.zip": zipped(entry{"a", "b"}), "x.pdf": []byte(plainPDF),
		"x.docx": wordFile("text")} {
		if items := Open(ctx, name, data, &Budget{Bytes: 1 << 20, Items: 9}); len(items) > 0 {
			t.Errorf("%s: %d items under a context that has ended", name, len(items))
		}
	}
}

// TestNames: a browser opens a file by the end of its name, however that is written.
func TestNames(t *testing.T) {
	for _, name := range []string{"a.html", "a.HTM", "a.xht", "a.hta", "a.mhtml", "a.html.", "a.html ", "a.svg. ."} {
		if !IsPage(name) {
			t.Errorf("%q is no page", name)
		}
	}
	for _, name := range []string{"a.txt", "html", "a.html.txt", ""} {
		if IsPage(name) {
			t.Errorf("%q is a page", name)
		}
	}
}

func TestCalendar(t *testing.T) {
	const entry = "BEGIN:VCALENDAR\r\nUID:4711\r\n" +
		"SUMMARY;LANGUAGE=en:Your payment\\, now\r\n" +
		"DESCRIPTION;ALTREP=\"cid:x:y\":Pay at\\nhttp://pay.exa\r\n mple/x or\r\n\t else\r\n" +
		"DTSTART:20260101\r\nLOCATION\r\nURL:http://a.example/\r\n" +
		"X-ALT-DESC;FMTTYPE=text/html:<p>\r\n" +
		"X-GOOGLE-CONFERENCE:http://b.example/\r\nEND:VCALENDAR"
	const want = "Your payment, now\nPay at\nhttp://pay.example/x or else\nhttp://a.example/\n<p>\nhttp://b.example/\n"
	if got := Calendar(entry); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add("x.zip", zipped(entry{"a", "b"}, entry{"c.htm", "d"}))
	f.Add("x.docx", wordFile("text"))
	f.Add("x.tgz", gzipped(tarred(entry{"a", "one"})))
	f.Add("x.pdf", []byte(plainPDF))
	f.Add("x.pdf", []byte(compressedPDF()))
	f.Add("x.pdf", []byte(filteredPDF("[/A85/LZW]", lzwOf, ascii85Of)))
	f.Add("x.doc", wordOf1997(100))
	f.Add("x.doc", wordOf1997(5000))
	f.Add("x.doc", []byte("<?xml?><w:r><w:vanish/>x</w:r>"))
	f.Add("x.vcf", []byte("BEGIN:VCARD\nNOTE;QUOTED-PRINTABLE:=3=\n="))
	f.Add("x.ics", []byte("SUMMARY:a\n b\\"))
	f.Add("x.rtf", []byte(rtfLetter))
	f.Add("x.vcf", []byte("BEGIN:VCARD\nitem1.URL:x"))
	f.Add("x.url", []byte("[InternetShortcut]\nURL=x"))
	f.Add("x.svgz", gzipped([]byte("<svg/>")))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		b := Budget{Bytes: 1 << 16, Items: 8}
		items := Open(t.Context(), name, data, &b)
		size := 0
		for _, item := range items {
			if size += len(item.Data); len(item.Data) == 0 || strings.ContainsAny(item.Name, `/\`) && item.Kind == Page {
				t.Errorf("item %q of %d bytes", item.Name, len(item.Data))
			}
		}
		if len(items) > 8 || b.Bytes < 0 || size > 1<<16+2*maxText+4*len(data) {
			t.Errorf("%d items of %d bytes, left %+v", len(items), size, b)
		}
		again := Open(t.Context(), name, data, &Budget{Bytes: 1 << 16, Items: 8})
		if !slices.EqualFunc(items, again, func(a, b Item) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) }) {
			t.Error("another time it is another result")
		}
		Calendar(string(data))
	})
}
