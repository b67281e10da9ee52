package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// values has a value of each type of TOML, and one over several lines for each type that allows it.
var values = map[string][]string{
	"string":      {`"x"`, "'''\nx\n'''"},
	"integer":     {"7"},
	"float":       {"7.5"},
	"boolean":     {"true"},
	"date":        {"2026-11-24T10:00:00Z", "2026-11-24T10:00:00", "2026-11-24"},
	"time of day": {"10:00:00"},
	"array":       {"[]", "[\n]"},
	"table":       {"{}", "{\n}"},
}

// takes returns the types of TOML that a key accepts.
func takes(t reflect.Type) []string {
	switch {
	case t == reflect.TypeFor[Duration](), t.Kind() == reflect.String:
		return []string{"string"}
	case t.Kind() == reflect.Bool:
		return []string{"boolean"}
	case t.Kind() == reflect.Float64:
		return []string{"float", "integer"}
	case t.Kind() == reflect.Slice:
		return []string{"array"}
	case t.Kind() == reflect.Struct:
		return []string{"table"}
	}
	return []string{"integer"}
}

// A slot is a key of the configuration.
type slot struct {
	header, name, key string // header of the table, name in the table, and the full key
	typ               reflect.Type
}

// slots returns all keys, including the keys of tables in lists.
func slots() (all []slot) {
	top := reflect.TypeFor[Config]()
	of := func(t reflect.Type, header, key string) {
		for i := range t.NumField() {
			name := t.Field(i).Tag.Get("toml")
			all = append(all, slot{header, name, key + "." + name, t.Field(i).Type})
		}
	}
	for i := range top.NumField() {
		name, t := top.Field(i).Tag.Get("toml"), top.Field(i).Type
		if t.Kind() == reflect.Slice {
			of(t.Elem(), "[["+name+"]]", name)
			continue
		}
		of(t, "["+name+"]", name)
		for j := range t.NumField() {
			if f := t.Field(j); isTables(f) {
				inner := name + "." + f.Tag.Get("toml")
				of(f.Type.Elem(), "[["+inner+"]]", inner)
			}
		}
	}
	return all
}

// mistakesOf returns the mistakes of a document.
func mistakesOf(t interface{ Fatalf(string, ...any) }, text string) (all []*Error) {
	_, err := Examine([]byte(text))
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%q: %v, want mistakes", text, err)
	}
	for _, e := range several.Unwrap() {
		var one *Error
		if !errors.As(e, &one) {
			t.Fatalf("%q: %T %v", text, e, e)
		}
		all = append(all, one)
	}
	return all
}

// TestWrongTypes gives every key every type of TOML that it does not accept. The error names the
// line and the key, and the mistakes before it, after it and in the same table are reported as
// well.
func TestWrongTypes(t *testing.T) {
	cases := 0
	for _, s := range slots() {
		for typ, texts := range values {
			if slices.Contains(takes(s.typ), typ) {
				continue
			}
			for _, text := range texts {
				cases++
				file := "wings = 1\n" + s.header + "\n" + s.name + " = " + text + " # why\n"
				next := strings.Count(file, "\n") + 1
				other := []string{"trust", "half", "anonymous"}
				if s.header == "[trust]" {
					other = []string{"tally", "error", "keep"}
				}
				file += fmt.Sprintf("feathers = 1\n[%s]\n%s = -1\n%s = 'x'\n", other[0], other[1], other[2])
				var got []string
				for _, e := range mistakesOf(t, file) {
					got = append(got, fmt.Sprintf("%d %s", e.Line, e.Key))
				}
				table := strings.Trim(s.header, "[]")
				for _, want := range []string{"1 wings", "3 " + s.key, fmt.Sprintf("%d %s.feathers", next, table),
					fmt.Sprintf("%d %s.%s", next+2, other[0], other[1]), fmt.Sprintf("%d %s.%s", next+3, other[0], other[2])} {
					if i := slices.Index(got, want); i < 0 {
						t.Errorf("%q: %q, want %q", file, got, want)
					} else {
						got = slices.Delete(got, i, i+1)
					}
				}
				// The other errors are about the table in the list, whose other keys are absent.
				for _, further := range got {
					if !strings.HasPrefix(s.header, "[[") || !strings.Contains(further, " "+table+".") {
						t.Errorf("%q: %q is no mistake in it", file, further)
					}
				}
			}
		}
	}
	t.Logf("%d keys, %d cases", len(slots()), cases)
	if cases < 1000 {
		t.Errorf("%d cases", cases)
	}
}

// TestMistakesTogether makes files of random tables in random order, in which some keys are unknown
// and some have a value of another type, and compares the reported mistakes with the mistakes made.
// They are the same, whether tables are written with headers, with dots or inline.
func TestMistakesTogether(t *testing.T) {
	top := reflect.ValueOf(fresh()).Elem()
	rapid.Check(t, func(t *rapid.T) {
		var file strings.Builder
		var want []string
		line := 1
		write := func(text string) {
			file.WriteString(text)
			line += strings.Count(text, "\n")
		}
		sections := rapid.Permutation(all(top)).Draw(t, "sections")[:rapid.IntRange(1, 6).Draw(t, "tables")]
		dotted := rapid.IntRange(0, len(sections)).Draw(t, "dotted") // this number of the tables comes first, without headers
		for i, section := range sections {
			v := member(top, section)
			form := "header"
			if i < dotted {
				form = rapid.SampledFrom([]string{"dots", "inline"}).Draw(t, "form")
			}
			start, before, after := "", "", rapid.SampledFrom([]string{"\n", " # it\n", "\r\n"}).Draw(t, "end")
			switch form {
			case "header":
				write(fmt.Sprintf("[%s]\n", section))
			case "dots":
				before = section + "."
			case "inline":
				start, after = section+" = { ", ", "
				write(start)
			}
			first := line
			for _, name := range rapid.Permutation(all(v)).Draw(t,
				"keys")[:rapid.IntRange(0, min(3, len(all(v)))).Draw(t, "n")] {
				field := member(v, name)
				at := line
				if form == "inline" {
					at = first
				}
				switch key := section + "." + name; rapid.IntRange(0, 2).Draw(t, "what") {
				case 0:
					write(before + name + " = " + string(literal(field)) + after)
				case 1:
					write(before + name + "_not = 3" + after)
					want = append(want, fmt.Sprintf("%d %s_not", at, key))
				case 2:
					typ := rapid.SampledFrom(slices.Sorted(maps.Keys(values))).Filter(func(s string) bool {
						return !slices.Contains(takes(field.Type()), s)
					}).Draw(t, "type")
					write(before + name + " = " + rapid.SampledFrom(values[typ]).Draw(t, "value") + after)
					want = append(want, fmt.Sprintf("%d %s", at, key))
				}
			}
			if form == "inline" {
				write("}\n")
			}
		}
		var got []string
		_, err := Examine([]byte(file.String()))
		if len(want) == 0 {
			if err != nil {
				t.Fatalf("%s\n%v", file.String(), err)
			}
			return
		}
		for _, e := range mistakesOf(t, file.String()) {
			got = append(got, fmt.Sprintf("%d %s", e.Line, e.Key))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%s\n%q, want %q", file.String(), got, want)
		}
	})
}

// all returns the keys of a table that are not lists of tables.
func all(v reflect.Value) (names []string) {
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type.Kind() != reflect.Slice || !isTable(f.Type) {
			names = append(names, f.Tag.Get("toml"))
		}
	}
	return names
}

// TestTwiceAndBroken: duplicates and syntax errors hide no other mistake.
func TestTwiceAndBroken(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       []string
	}{
		{"a key twice", "[tally]\nkeep = 3\nkeep = [\n4]\nerror = 2.0\n[node]\ncolour = 1\n",
			[]string{"3 tally.keep", "3 tally.keep", "5 tally.error", "7 node.colour"}},
		{"a table twice", "[tally]\nkeep = 0\n[node]\nname = 3\n[tally] # once more\nerror = 2.0\n[trust]\nhalf = -1\n",
			[]string{"2 tally.keep", "4 node.name", "5 tally", "6 tally.error", "8 trust.half"}},
		{"an array of one table", "[[node]]\ndurability = \"x\"\n[trust]\nhalf = -1\n",
			[]string{"1 node", "2 node.durability", "4 trust.half"}},
		{"a value as a table", "[node.name]\nx = 1\n[trust]\nhalf = -1\n", []string{"1 node.name", "4 trust.half"}},
		{"a value with dots", "node.name.x = 1\ntrust.half = -1\n", []string{"1 node.name", "2 trust.half"}},
		{"a table as a value", "node = 3\n[trust]\nhalf = -1\n", []string{"1 node", "3 trust.half"}},
		{"numbers too large", "[tally]\nthreshold = 4294967296\nkeep = 99999999999999999999\nerror = 1e999\ncapacity = 1\n",
			[]string{"2 tally.threshold", "3 tally.keep", "4 tally.error", "5 tally.capacity"}},
		{"flags", "[fuzzy]\nspam_flags = [1, 256]\nham_flags = [-1]\nblocked = [\n\"192.0.2.1/24\", 3]\n[trust]\nhalf = -1\n",
			[]string{"2 fuzzy.spam_flags", "3 fuzzy.ham_flags", "4 fuzzy.blocked", "7 trust.half"}},
		{"times",
			"[tally]\ngeneration = \"a day\"\n[memory]\nkeep = true\n[dccifd]\nembargo = 5\n[node]\n" +
				"checkpoint = \"0s\"\nname = true\n",
			[]string{"2 tally.generation", "4 memory.keep", "6 dccifd.embargo", "8 node.checkpoint", "9 node.name"}},
		{"rules inline",
			"ratelimit = [{ limit = true, period = \"1h\", mode = \"odd\" },\n{ limit = 1, periodd = \"1s\" }]\n" +
				"[trust]\nhalf = -1\n",
			[]string{"1 ratelimit.limit", "1 ratelimit.periodd", "1 ratelimit.mode", "1 ratelimit.period", "4 trust.half"}},
		{"a line that is no TOML", "[node]\nname = 3\ndurability = always\n[trust]\nhalf = -1\n",
			[]string{"3 ", "2 node.name", "5 trust.half"}},
		{"a header that is none", "[node]\nname = 3\n[trust\nhalf = -1\n[tally]\nkeep = 0\n",
			[]string{"3 ", "2 node.name", "6 tally.keep"}},
		{"lines that are no TOML", "[node]\nname = 3\ndurability = always\n[trust]\nhalf = = 1\n",
			[]string{"3 ", "2 node.name"}},
		{"a list without an end", "[node]\nname = 3\n[whitelist]\ndomains = [\"a.example\",\n[trust]\nhalf = -1\n", nil},
		{"twice in other letters", "[tally]\nkeep = 3\nKEEP = 4\n[Tally]\nerror = 2.0\n[TALLY]\n[[ratelimit]]\nname = 'a'\n" +
			"limit = 1\nperiod = '1h'\n[[Ratelimit]]\nname = 'b'\nlimit = 1\nperiod = '1h'\nPeriod = '2h'\n",
			[]string{"3 tally.keep", "4 tally", "5 tally.error", "6 tally", "15 ratelimit[1].period"}},
		{"other letters", "[Tally]\nKEEP = 0\nError = 'x'\n", []string{"2 tally.keep", "3 Tally.Error"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, e := range mistakesOf(t, tt.file) {
				got = append(got, fmt.Sprintf("%d %s", e.Line, e.Key))
				t.Log(e)
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if tt.want != nil && !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
