package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A survey collects the unknown keys of a document and the values of a wrong type. The decoder
// reports only the first such value, and some without a line.
type survey struct {
	p        unstable.Parser
	line     int            // line of the expression
	cuts     []cut          // the mistakes, in order
	unknown  []*Error       // keys and tables
	wrong    []*Error       // values of a wrong type
	replaced map[place]bool // keys whose values clean replaces
	syntax   *Error         // the first syntax error; the text after it was not examined
}

// A place is a key in a file.
type place struct {
	line int // line of the key, or of the key whose value is its inline table
	key  string
}

// A cut is a range of a document that is replaced by another text.
type cut struct {
	from, to int
	with     []byte
}

// A table is a table of a document and the value into which it is decoded.
type table struct {
	name []string
	v    reflect.Value // invalid if the table is unknown
}

// look surveys a document.
func look(data []byte) *survey {
	s := &survey{replaced: make(map[place]bool)}
	s.p.Reset(data)
	root := table{v: reflect.ValueOf(fresh()).Elem()}
	in, dropped := root, false
	for s.p.NextExpression() {
		e := s.p.Expression()
		path, first, last := keyOf(e)
		s.line = s.p.Shape(first).Start.Line
		header := e.Kind != unstable.KeyValue
		if header {
			var ok bool
			if in, ok = s.descend(root, path); ok && in.v.IsValid() && !isTable(in.v.Type()) {
				s.fail(in, mistyped(in.v.Type(), unstable.Table))
				ok = false
			}
			dropped = !ok
		}
		from, to := wholeLines(data, int(first.Offset), max(int(last.Offset), int(e.Raw.Offset+e.Raw.Length)))
		switch {
		case dropped:
			s.cut(from, to, nil)
		case !header:
			s.keyValue(in, e)
		case e.Kind == unstable.ArrayTable && in.v.IsValid() && in.v.Kind() == reflect.Struct:
			one := "[" + strings.Join(in.name, ".") + "]"
			s.fail(in, fmt.Sprintf("want %s, once, have [%[1]s]", one))
			s.cut(from, to, []byte(one))
		}
	}
	if err := s.p.Error(); err != nil {
		s.syntax = &Error{Line: 1, Detail: strings.TrimPrefix(err.Error(), "toml: ")}
		var bad *unstable.ParserError
		if errors.As(err, &bad) && len(bad.Highlight) > 0 {
			s.syntax.Line = s.p.Shape(s.p.Range(bad.Highlight)).Start.Line
		}
	}
	return s
}

// descend returns the value of a key below a table. For an unknown key it notes the mistake, and
// the value is invalid. If the path leads through a value that is not a table, ok is false and t is
// that value.
func (s *survey) descend(t table, path []string) (_ table, ok bool) {
	for _, name := range path {
		if t.v.IsValid() && !isTable(t.v.Type()) {
			s.fail(t, mistyped(t.v.Type(), unstable.Table))
			return t, false
		}
		known := t.v.IsValid()
		t.name = append(slices.Clone(t.name), name)
		if t.v = member(t.v, name); known && !t.v.IsValid() {
			s.unknown = append(s.unknown, &Error{Line: s.line, Key: strings.Join(t.name, "."),
				Detail: "unknown key" + meant(t.name)})
		}
	}
	return t, true
}

// keyValue examines a key of a table, and the keys of the tables in its value.
func (s *survey) keyValue(in table, e *unstable.Node) {
	path, first, last := keyOf(e)
	t, ok := s.descend(in, path)
	data := s.p.Data()
	from := int(last.Offset + last.Length)
	from += bytes.IndexByte(data[from:], '=') + 1
	text := literal(t.v)
	switch {
	case !ok:
		from = int(first.Offset)
		text = slices.Concat([]byte(strings.Join(t.name[len(in.name):], ".")+" = "), text)
	case !t.v.IsValid() || s.value(t, e.Value()):
		return
	}
	s.cut(from, int(e.Raw.Offset+e.Raw.Length), text)
	s.replaced[place{s.line, strings.ToLower(strings.Join(t.name, "."))}] = true
}

// value examines the value of a known key, and reports whether the decoder accepts it.
func (s *survey) value(t table, n *unstable.Node) bool {
	typ := t.v.Type()
	switch kind := typ.Kind(); {
	case kind == reflect.Struct && n.Kind == unstable.InlineTable:
		for it := n.Children(); it.Next(); {
			s.keyValue(t, it.Node())
		}
		return true
	case kind == reflect.Slice && n.Kind == unstable.Array:
		ok := true
		for it := n.Children(); it.Next() && (ok || isTable(typ)); { // one mistake is enough for a list of texts or numbers
			ok = s.value(table{t.name, reflect.Zero(typ.Elem())}, it.Node()) && ok
		}
		return ok
	}
	if _, kinds := wanted(typ); !slices.Contains(kinds, n.Kind) {
		s.fail(t, mistyped(typ, n.Kind))
		return false
	}
	if detail := s.outOfRange(t.v, n); detail != "" {
		s.fail(t, detail)
		return false
	}
	return true
}

// outOfRange returns why a duration or number does not fit its type, "" if it does.
func (s *survey) outOfRange(v reflect.Value, n *unstable.Node) string {
	var number struct {
		V int64
		F float64
	}
	name, kind := "v", v.Kind()
	switch {
	case v.Type() == reflect.TypeFor[Duration]():
		if err := new(Duration).UnmarshalText(n.Data); err != nil {
			return err.Error()
		}
		return ""
	case kind == reflect.String, kind == reflect.Bool:
		return ""
	case kind == reflect.Float64:
		name = "f"
	}
	if err := toml.Unmarshal(slices.Concat([]byte(name+" = "), s.p.Raw(n.Raw)), &number); err != nil {
		return positioned(err).Detail
	}
	if i := number.V; v.CanInt() && v.OverflowInt(i) || v.CanUint() && (i < 0 || v.OverflowUint(uint64(i))) {
		return fmt.Sprintf("%d is none that %s holds", i, kind)
	}
	return ""
}

// fail notes that a value is not valid for its key.
func (s *survey) fail(t table, detail string) {
	s.wrong = append(s.wrong, &Error{Line: s.line, Key: strings.Join(t.name, "."), Detail: detail})
}

// cut replaces a range, and the cuts within it, by a text.
func (s *survey) cut(from, to int, with []byte) {
	for len(s.cuts) > 0 && s.cuts[len(s.cuts)-1].from >= from {
		s.cuts = s.cuts[:len(s.cuts)-1]
	}
	s.cuts = append(s.cuts, cut{from, to, with})
}

// clean returns the document with defaults in the place of mistakes. Its lines keep their numbers.
func (s *survey) clean() (out []byte) {
	data, from := s.p.Data(), 0
	for _, c := range s.cuts {
		out = append(append(out, data[from:c.from]...), c.with...)
		out = append(out, newlines(data[c.from:c.to])...)
		from = c.to
	}
	return append(out, data[from:]...)
}

// around returns the mistakes of a document with a syntax error: that error, and the mistakes of
// the document without the faulty line if that is TOML, or else of the text above it.
func (s *survey) around(data []byte) []*Error {
	lines := bytes.SplitAfter(data, []byte("\n"))
	at := s.syntax.Line - 1
	above, below := bytes.Join(lines[:at], nil), slices.Clone(lines[at+1:])
	if isHeader(lines[at]) {
		// The table of its keys is unknown.
		for i := 0; i < len(below) && !isHeader(below[i]); i++ {
			below[i] = newlines(below[i])
		}
	}
	rest := slices.Concat(above, newlines(lines[at]), bytes.Join(below, nil))
	if look(rest).syntax != nil {
		rest = above
	}
	all := []*Error{s.syntax}
	if look(rest).syntax == nil {
		_, err := examine(rest)
		all = append(all, err...)
	}
	return all
}

func isHeader(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("[")) }

// keyOf returns the key of an expression, and the ranges of its first and last words.
func keyOf(e *unstable.Node) (key []string, first, last unstable.Range) {
	for it := e.Key(); it.Next(); {
		last = it.Node().Raw
		if len(key) == 0 {
			first = last
		}
		key = append(key, string(it.Node().Data))
	}
	return key, first, last
}

// wholeLines returns the range of the whole lines on which an expression stands, given its first
// and its last byte.
func wholeLines(data []byte, first, last int) (from, to int) {
	from = bytes.LastIndexByte(data[:first], '\n') + 1
	to = len(data)
	if n := bytes.IndexByte(data[last:], '\n'); n >= 0 {
		to = last + n
	}
	return from, to
}

// member returns the value into which a key of a table is decoded, ignoring case. For a list of
// tables it returns the value for one of its tables. The value is invalid if there is no such key.
func member(v reflect.Value, name string) reflect.Value {
	if v.IsValid() && v.Kind() == reflect.Slice {
		v = reflect.Zero(v.Type().Elem())
	}
	if v.IsValid() && v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			if strings.EqualFold(v.Type().Field(i).Tag.Get("toml"), name) {
				return v.Field(i)
			}
		}
	}
	return reflect.Value{}
}

// isTable reports whether tables are decoded into a type.
func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// literal returns a value as written in a file.
func literal(v reflect.Value) []byte {
	if !v.IsValid() {
		return nil
	}
	if v.Kind() == reflect.Slice && v.IsNil() {
		v = reflect.MakeSlice(v.Type(), 0, 0)
	}
	if v.Kind() == reflect.Struct {
		return []byte(" {}")
	}
	line, err := toml.Marshal(map[string]any{"v": v.Interface()})
	if err != nil {
		return []byte(" ''") // unreachable: these are values of Default
	}
	return bytes.TrimSpace(bytes.TrimPrefix(line, []byte("v =")))
}

// wanted describes for people the values of a type, and returns the kinds of TOML values that it
// accepts.
func wanted(t reflect.Type) (text string, kinds []unstable.Kind) {
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[Duration]():
		return `a time in quotes, such as "15m"`, []unstable.Kind{unstable.String}
	case kind == reflect.String:
		return "a text in quotes", []unstable.Kind{unstable.String}
	case kind == reflect.Bool:
		return "true or false", []unstable.Kind{unstable.Bool}
	case kind == reflect.Float64:
		return "a number", []unstable.Kind{unstable.Float, unstable.Integer}
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return "a list of tables", nil
	case kind == reflect.Slice:
		return "a list in brackets", nil
	case kind == reflect.Struct:
		return "a table", nil
	}
	return "a whole number", []unstable.Kind{unstable.Integer}
}

// kindNames holds the names of the kinds of values in the TOML specification.
var kindNames = map[unstable.Kind]string{
	unstable.Table: "table", unstable.InlineTable: "table", unstable.Array: "array", unstable.String: "string",
	unstable.Bool:    "boolean",
	unstable.Integer: "integer", unstable.Float: "float", unstable.LocalDate: "date", unstable.LocalTime: "time of day",
	unstable.LocalDateTime: "date", unstable.DateTime: "date",
}

func mistyped(t reflect.Type, have unstable.Kind) string {
	want, _ := wanted(t)
	return fmt.Sprintf("want %s, have a TOML %s", want, kindNames[have])
}
