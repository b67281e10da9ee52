package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxFile is the largest configuration file that is read, in bytes.
const maxFile = 4 << 20

// An Error is one mistake in a configuration file.
type Error struct {
	Line   int    // line of the file, from 1; 0 if the file does not have the key
	Key    string // dotted key, for example "listen.pyzor"; "" if unknown
	Detail string // what is wrong, with the value and its limit
}

// Error returns for example `config: line 12: listen.pyzor: "24441" is not host:port`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("config: ")
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Key != "" {
		fmt.Fprintf(&b, "%s: ", e.Key)
	}
	b.WriteString(e.Detail)
	return b.String()
}

// Load reads and validates the file at path; see [Parse].
func Load(path string) (*Config, error) {
	cfg, err := Inspect(path)
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// Inspect is [Load] for a checker; see [Examine].
func Inspect(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	cfg, err := Examine(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return cfg, err
}

// Parse reads a configuration file. Absent keys have the values of [Default], but an absent
// key of [listen] means that the door is off. The error joins an [*Error] for every mistake,
// in the order of the lines.
func Parse(data []byte) (*Config, error) {
	cfg, err := Examine(data)
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// Examine is [Parse] for a checker. With the error it returns a configuration that has defaults in
// the place of the mistakes, so that the other values can be checked further. The configuration is
// nil if defaults do not correct it.
func Examine(data []byte) (*Config, error) {
	if len(data) > maxFile {
		return nil, &Error{Detail: fmt.Sprintf("file is longer than %d bytes", maxFile)}
	}
	cfg, all := examine(bytes.TrimPrefix(data, []byte("\ufeff"))) // some editors begin a file with that mark
	slices.SortStableFunc(all, func(a, b *Error) int { return a.Line - b.Line })
	errs := make([]error, len(all))
	for i, e := range all {
		errs[i] = e
	}
	return cfg, errors.Join(errs...)
}

// examine is Examine for a document of bounded length, with the mistakes in any order.
func examine(data []byte) (*Config, []*Error) {
	s := look(data)
	if s.syntax != nil {
		return nil, s.around(data)
	}
	clean := s.clean()
	cfg, twice := decode(clean)
	// Mistakes in the replacement of a mistyped value are not mistakes of the file.
	lines, again := keyLines(clean)
	bad := slices.DeleteFunc(cfg.validate(lines), func(e *Error) bool {
		return s.replaced[place{e.Line, e.Key}]
	})
	wrong := slices.Concat(s.wrong, twice, again, bad)
	if len(wrong) > 0 {
		cfg = cfg.without(wrong)
	}
	return cfg, slices.Concat(s.unknown, wrong)
}

// fresh returns the configuration into which a file is decoded.
func fresh() *Config {
	cfg := Default()
	cfg.Listen = Listen{}
	return cfg
}

// maxTwice is the largest number of duplicate keys and tables that are reported.
const maxTwice = 32

// decode decodes a document whose values have the types of their keys. The decoder can then only
// reject duplicates: the first of two equal keys counts, and both of two equal tables.
func decode(data []byte) (cfg *Config, twice []*Error) {
	parts := [][]byte{data}
	for {
		cfg = fresh()
		i, bad := 0, (*Error)(nil)
		for ; i < len(parts) && bad == nil; i++ {
			if err := toml.Unmarshal(parts[i], cfg); err != nil {
				bad = positioned(err)
			}
		}
		if bad == nil {
			return cfg, twice
		}
		before, it, after := expression(parts[i-1], bad)
		again := slices.ContainsFunc(twice, func(e *Error) bool { return e.Line == bad.Line })
		if twice = append(twice, bad); it == nil || again || len(twice) == maxTwice {
			return fresh(), twice
		}
		if !isHeader(it) {
			parts[i-1] = slices.Concat(before, newlines(it), after)
			continue
		}
		parts = append(append(append([][]byte{}, parts[:i-1]...), before, slices.Concat(newlines(before), it, after)),
			parts[i:]...)
	}
}

// expression splits data into the lines of the key or table with a mistake, and the text before and
// after them. It completes the key of the mistake.
func expression(data []byte, bad *Error) (before, it, after []byte) {
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		path, first, last := keyOf(e)
		key := strings.Join(path, ".")
		if e.Kind == unstable.KeyValue {
			key = table + key
		} else {
			table = key + "."
		}
		if p.Shape(first).Start.Line == bad.Line {
			bad.Key = key
			from, to := wholeLines(data, int(first.Offset), max(int(last.Offset), int(e.Raw.Offset+e.Raw.Length)))
			return data[:from], data[from:to], data[to:]
		}
	}
	return data, nil, nil
}

// newlines returns only the line feeds of a text.
func newlines(text []byte) []byte { return bytes.Repeat([]byte("\n"), bytes.Count(text, []byte("\n"))) }

// without returns a configuration with defaults in the place of the mistakes. It returns nil if a
// mistake is in a list of tables, or if the result still has mistakes.
func (c *Config) without(wrong []*Error) *Config {
	mended := *c
	v, d := reflect.ValueOf(&mended).Elem(), reflect.ValueOf(fresh()).Elem()
	for _, e := range wrong {
		to, from := v, d
		for _, name := range strings.Split(e.Key, ".") {
			if to.IsValid() && isTable(to.Type()) && to.Kind() == reflect.Slice {
				return nil
			}
			to, from = member(to, name), member(from, name)
		}
		if !to.IsValid() || isTable(to.Type()) && to.Kind() == reflect.Slice {
			return nil
		}
		to.Set(from)
	}
	if len(mended.validate(nil)) > 0 {
		return nil
	}
	return &mended
}

// positioned turns an error of the TOML library into an [*Error].
func positioned(err error) *Error {
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		return &Error{Line: line, Key: strings.Join(bad.Key(), "."), Detail: strings.TrimPrefix(bad.Error(), "toml: ")}
	}
	return &Error{Detail: err.Error()}
}

// keyLines returns the line of every key and table of a document that the decoder has
// accepted, for errors about values that are well-formed TOML but out of range. Keys inside
// inline tables have the line of the table. The second [[ratelimit]] is ratelimit[1], and its
// keys are for example ratelimit[1].limit. again are keys and tables that differ from an earlier one in the case of
// letters alone: the decoder takes them for two, and the last one would count.
func keyLines(data []byte) (lines map[string]int, again []*Error) {
	lines = make(map[string]int)
	spelled := make(map[string]string)
	once := func(key, as string, line int) {
		if was, ok := spelled[key]; ok && was != as && len(again) < maxTwice {
			again = append(again, &Error{Line: line, Key: key, Detail: fmt.Sprintf("line %d has it already, as %.80q",
				lines[key], was)})
			return
		}
		spelled[key], lines[key] = as, line
	}
	tables := make(map[string]int) // number of tables seen of each list
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		path, at, _ := keyOf(e)
		line := p.Shape(at).Start.Line
		as := strings.Join(path, ".")
		key := strings.ToLower(as) // the decoder ignores the case of keys
		switch e.Kind {
		case unstable.Table:
			table = key + "."
			once(key, as, line)
		case unstable.ArrayTable:
			if lines[key] == 0 {
				lines[key] = line
			}
			one := nth(key, tables[key])
			tables[key]++
			table = one + "."
			lines[one] = line
		case unstable.KeyValue:
			once(table+key, as, line)
		}
	}
	return lines, again
}

// nth returns the name of table i, from 0, of a list of tables.
func nth(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
