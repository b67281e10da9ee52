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

// A survey is what is wrong with the keys of a document and with the types of their values.
// The decoder would tell the first such value alone, and some without a line.
type survey struct {
	p        unstable.Parser
	line     int            // of the expression
	cuts     []cut          // of what is wrong, in their order
	unknown  []*Error       // keys and tables
	wrong    []*Error       // values of another type than their keys have
	replaced map[place]bool // what clean has other values for than the file
	syntax   *Error         // where the document is no TOML; what is behind was not looked at
}

// A place is a key in a file.
type place struct {
	line int // of the key, or of the one that its table is the value of
	key  string
}

// A cut is a range of a document that another text takes the place of.
type cut struct {
	from, to int
	with     []byte
}

// A table is one of a document, and what it is decoded into.
type table struct {
	name []string
	v    reflect.Value // invalid if no table has that name
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

// descend returns the value of a key below a table, invalid if it is unknown, which is noted.
// If a value is used as a table that is none, ok is false, and t is that value.
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

// keyValue looks at a key of a table, and at those of the tables in its value.
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

// value looks at the value of a known key, and reports whether the decoder takes it.
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
		for it := n.Children(); it.Next() && (ok || isTable(typ)); { // of texts or numbers, one mistake says enough
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

// outOfRange says why a time or number is none that fits, "" if it does.
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

// fail notes that a value cannot be that of its key.
func (s *survey) fail(t table, detail string) {
	s.wrong = append(s.wrong, &Error{Line: s.line, Key: strings.Join(t.name, "."), Detail: detail})
}

// cut puts a text in the place of a range, and of what was cut within it.
func (s *survey) cut(from, to int, with []byte) {
	for len(s.cuts) > 0 && s.cuts[len(s.cuts)-1].from >= from {
		s.cuts = s.cuts[:len(s.cuts)-1]
	}
	s.cuts = append(s.cuts, cut{from, to, with})
}

// clean returns the document with the defaults in the place of what is wrong, on the same
// lines.
func (s *survey) clean() (out []byte) {
	data, from := s.p.Data(), 0
	for _, c := range s.cuts {
		out = append(append(out, data[from:c.from]...), c.with...)
		out = append(out, newlines(data[c.from:c.to])...)
		from = c.to
	}
	return append(out, data[from:]...)
}

// around returns the mistakes of a document that is no TOML: where it is none, and those of
// the rest, if that is TOML without the line; else of what is above.
func (s *survey) around(data []byte) []*Error {
	lines := bytes.SplitAfter(data, []byte("\n"))
	at := s.syntax.Line - 1
	above, below := bytes.Join(lines[:at], nil), slices.Clone(lines[at+1:])
	if isHeader(lines[at]) {
		// Its keys belong to nobody knows what.
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

// keyOf returns the key of an expression, and where its first and last words are.
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

// wholeLines returns where the lines begin and end on which an expression is, from its
// first to its last byte.
func wholeLines(data []byte, first, last int) (from, to int) {
	from = bytes.LastIndexByte(data[:first], '\n') + 1
	to = len(data)
	if n := bytes.IndexByte(data[last:], '\n'); n >= 0 {
		to = last + n
	}
	return from, to
}

// member returns what a key of a table is decoded into, in any case; of a list of tables,
// what that of each of them is. It is invalid if there is no such key.
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

// literal is a value as a file has it.
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
		return []byte(" ''") // out of reach: these are values of Default
	}
	return bytes.TrimSpace(bytes.TrimPrefix(line, []byte("v =")))
}

// wanted says for people what values a type has, and which kinds of TOML these are.
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

// kindNames are the kinds of values as the specification of TOML calls them.
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
