package store

import (
	"bytes"
	"strings"
	"testing"
)

// TestManifestFields checks that a manifest with a field that this program does not know is refused.
func TestManifestFields(t *testing.T) {
	m := Manifest{Incarnation: strings.Repeat("0a", incarnationBytes), Start: 1, epoch: 1}
	text, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(text, []byte("\n"))
	if _, err := decodeManifest("MANIFEST", withHead(body)); err != nil {
		t.Fatal(err)
	}
	body = bytes.Replace(body, []byte("{"), []byte(`{"another": 1, `), 1)
	if m, err := decodeManifest("MANIFEST", withHead(body)); err == nil {
		t.Errorf("%q is read as %+v", body, m)
	}
}

// TestManifestRanges checks that a manifest with a value out of range is refused although its checksum is right.
func TestManifestRanges(t *testing.T) {
	id := strings.Repeat("0a", incarnationBytes)
	file := func(change func(*manifestFileJSON)) func(*manifestJSON) {
		return func(j *manifestJSON) { change(&j.Files[1]) }
	}
	for name, tt := range map[string]struct {
		change func(*manifestJSON)
		ok     bool
	}{
		"as written":             {func(*manifestJSON) {}, true},
		"without files":          {func(j *manifestJSON) { j.Files = nil }, true},
		"no incarnation":         {func(j *manifestJSON) { j.Incarnation = "" }, false},
		"a short incarnation":    {func(j *manifestJSON) { j.Incarnation = id[2:] }, false},
		"a long incarnation":     {func(j *manifestJSON) { j.Incarnation = id + "0a" }, false},
		"capital digits":         {func(j *manifestJSON) { j.Incarnation = strings.ToUpper(id) }, false},
		"no digits":              {func(j *manifestJSON) { j.Incarnation = strings.Repeat("xy", incarnationBytes) }, false},
		"no start":               {func(j *manifestJSON) { j.Start = 0 }, false},
		"the first start":        {func(j *manifestJSON) { j.Start = 1 }, true},
		"the last start":         {func(j *manifestJSON) { j.Start = maxNumber }, true},
		"a later start":          {func(j *manifestJSON) { j.Start = maxNumber + 1 }, false},
		"no epoch":               {func(j *manifestJSON) { j.Epoch = 0 }, false},
		"the last epoch":         {func(j *manifestJSON) { j.Epoch = maxNumber }, true},
		"a later epoch":          {func(j *manifestJSON) { j.Epoch = maxNumber + 1 }, false},
		"the last checkpoint":    {func(j *manifestJSON) { j.Checkpoint = maxNumber }, true},
		"a later checkpoint":     {func(j *manifestJSON) { j.Checkpoint = maxNumber + 1 }, false},
		"a path as name":         {file(func(f *manifestFileJSON) { f.Name = "b/../c" }), false},
		"two of one name":        {file(func(f *manifestFileJSON) { f.Name = "a" }), false},
		"names out of order":     {file(func(f *manifestFileJSON) { f.Name = "Z" }), false},
		"a negative size":        {file(func(f *manifestFileJSON) { f.Size = -1 }), false},
		"the largest size":       {file(func(f *manifestFileJSON) { f.Size = maxFileBytes }), true},
		"a larger size":          {file(func(f *manifestFileJSON) { f.Size = maxFileBytes + 1 }), false},
		"of the checkpoint":      {file(func(f *manifestFileJSON) { f.Seq = 9 }), true},
		"of a later checkpoint":  {file(func(f *manifestFileJSON) { f.Seq = 10 }), false},
		"of an early checkpoint": {file(func(f *manifestFileJSON) { f.Seq = 0 }), true},
	} {
		j := &manifestJSON{Checkpoint: 9, Incarnation: id, Epoch: 2, Start: 3, Meta: []byte("meta"),
			Files: []manifestFileJSON{{Name: "a", Size: 5, CRC: 6, ID: 7, Seq: 8}, {Name: "b", Size: 0, Seq: 1}}}
		tt.change(j)
		m, err := j.manifest()
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v, want accepted %v", name, err, tt.ok)
		}
		if err == nil && (m.Start != j.Start || m.epoch != j.Epoch || len(m.Files) != len(j.Files)) {
			t.Errorf("%s: read as %+v", name, m)
		}
	}
}
