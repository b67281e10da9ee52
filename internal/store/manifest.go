package store

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
)

const (
	manifestMagic    = "bulkhead-store"
	manifestVersion  = 1
	maxManifestBytes = 64 << 20               // without the first line
	maxManifestFile  = maxManifestBytes + 128 // with it
	incarnationBytes = 16
	maxNameBytes     = 180
	maxNumber        = 1 << 62 // of an index, epoch or checkpoint: counting to it outlives the disk
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Manifest describes the last checkpoint.
type Manifest struct {
	// Checkpoint counts the checkpoints of this store; 0 is the empty store.
	Checkpoint uint64
	// Incarnation is a random identifier, 32 hexadecimal digits, generated when the store was
	// created and renewed by [Restore]: data that a peer received from another incarnation may lie
	// in the future of this one.
	Incarnation string
	// Start is the journal index from which to replay, 1 or more. Everything below it is in the
	// files.
	Start uint64
	// Meta is the metadata that the caller passed to the checkpoint.
	Meta []byte
	// Files are the checkpoint's files, in order of name.
	Files []FileInfo

	// epoch numbers the journals of a store; Recover begins the next one.
	epoch uint64
}

// A FileInfo describes one checkpoint file.
type FileInfo struct {
	Name string // the caller's name for it
	Size int64  // in bytes, of the content
	CRC  uint32 // CRC-32C of the content

	id  uint64 // random; part of the file's header and of each of its checksums
	seq uint64 // number of the checkpoint that wrote it
}

// stored returns the file's name on disk, which is never reused for other content.
func (f *FileInfo) stored() string { return fmt.Sprintf("%s.%016x", f.Name, f.seq) }

func (m *Manifest) clone() Manifest {
	c := *m
	c.Meta = bytes.Clone(m.Meta)
	c.Files = slices.Clone(m.Files)
	return c
}

// checkName refuses names that could escape the directory or be mistaken for the store's own files.
func checkName(name string) error {
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("store: file name of %d bytes, want 1 to %d", len(name), maxNameBytes)
	}
	for i := range len(name) {
		c := name[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' ||
			c == '.' && i > 0
		if !ok {
			return fmt.Errorf("store: file name %q: byte %d is %q, want a letter, a digit, '-', '_', or '.' after the first",
				name, i, c)
		}
	}
	return nil
}

// manifestJSON is the JSON form of the manifest, so that an operator can read it. It follows a line
// with magic, version, CRC-32C and length.
type manifestJSON struct {
	Checkpoint  uint64             `json:"checkpoint"`
	Incarnation string             `json:"incarnation"`
	Epoch       uint64             `json:"journal_epoch"`
	Start       uint64             `json:"journal_start"`
	Files       []manifestFileJSON `json:"files"`
	Meta        []byte             `json:"meta"`
}

type manifestFileJSON struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	CRC  uint32 `json:"crc32c"`
	ID   uint64 `json:"id"`
	Seq  uint64 `json:"checkpoint"`
}

func (m *Manifest) encode() ([]byte, error) {
	j := manifestJSON{m.Checkpoint, m.Incarnation, m.epoch, m.Start, []manifestFileJSON{}, m.Meta}
	for _, f := range m.Files {
		j.Files = append(j.Files, manifestFileJSON{f.Name, f.Size, f.CRC, f.id, f.seq})
	}
	body, err := json.MarshalIndent(j, "", " ")
	if err != nil {
		return nil, fmt.Errorf("store: manifest: %w", err)
	}
	body = append(body, '\n')
	if len(body) > maxManifestBytes {
		return nil, fmt.Errorf("store: manifest of %d bytes, limit %d", len(body), maxManifestBytes)
	}
	head := fmt.Sprintf("%s %d %08x %d\n", manifestMagic, manifestVersion, crc32.Checksum(body, castagnoli), len(body))
	return append([]byte(head), body...), nil
}

// decodeManifest parses the output of encode, which must match byte for byte; file is named in its
// errors.
func decodeManifest(file string, b []byte) (Manifest, error) {
	head, body, ok := bytes.Cut(b, []byte("\n"))
	magic, rest, _ := bytes.Cut(head, []byte(" "))
	version, _, _ := bytes.Cut(rest, []byte(" "))
	if !ok || string(magic) != manifestMagic {
		return Manifest{}, unusable(file, "the first line does not begin a manifest")
	}
	if v, err := strconv.Atoi(string(version)); err == nil && v != manifestVersion {
		return Manifest{}, fmt.Errorf("store: %s: %w: format %d, this program reads %d; use the program that wrote it",
			file, formatOf(v > manifestVersion), v, manifestVersion)
	}
	want := fmt.Sprintf("%s %d %08x %d", manifestMagic, manifestVersion, crc32.Checksum(body, castagnoli), len(body))
	if want != string(head) {
		return Manifest{}, unusable(file, "checksum or length differ: the first line says %.80q, the content %q", head, want)
	}
	var j manifestJSON
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return Manifest{}, unusable(file, "%v", err)
	}
	m, err := j.manifest()
	if err != nil {
		return Manifest{}, unusable(file, "%v", err)
	}
	return m, nil
}

// manifest validates j. The checksum has been verified, so an error means a faulty writer or a
// forgery.
func (j *manifestJSON) manifest() (Manifest, error) {
	m := Manifest{Checkpoint: j.Checkpoint, Incarnation: j.Incarnation, Start: j.Start, Meta: j.Meta, epoch: j.Epoch}
	if id, err := hex.DecodeString(j.Incarnation); err != nil || len(id) != incarnationBytes ||
		hex.EncodeToString(id) != j.Incarnation {
		return Manifest{}, fmt.Errorf("incarnation %.40q, want %d hexadecimal digits", j.Incarnation, 2*incarnationBytes)
	}
	if m.Start == 0 || m.epoch == 0 || m.Checkpoint > maxNumber || m.Start > maxNumber || m.epoch > maxNumber {
		return Manifest{}, fmt.Errorf("journal start %d, epoch %d or checkpoint %d out of range", m.Start, m.epoch,
			m.Checkpoint)
	}
	for i, f := range j.Files {
		if err := checkName(f.Name); err != nil {
			return Manifest{}, err
		}
		if i > 0 && j.Files[i-1].Name >= f.Name {
			return Manifest{}, fmt.Errorf("file %q after %q: not in order", f.Name, j.Files[i-1].Name)
		}
		if f.Size < 0 || f.Size > maxFileBytes || f.Seq > m.Checkpoint {
			return Manifest{}, fmt.Errorf("file %q: size %d or checkpoint %d out of range", f.Name, f.Size, f.Seq)
		}
		m.Files = append(m.Files, FileInfo{f.Name, f.Size, f.CRC, f.ID, f.Seq})
	}
	return m, nil
}

// readManifest returns an error that wraps fs.ErrNotExist if there is no manifest.
func readManifest(fsys FS, file string) (Manifest, error) {
	b, err := manifestBytes(fsys, file)
	if err != nil {
		return Manifest{}, err
	}
	return decodeManifest(file, b)
}

// manifestBytes reads a manifest, and no more of a longer file than a manifest may have.
func manifestBytes(fsys FS, file string) ([]byte, error) {
	f, err := openRead(fsys, file)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifestFile))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return b, nil
}

// replaceFile writes content next to file, makes it durable, checks it and renames it to file.
// committed means that the new content is in place; if err is set as well, the new content may not
// survive a power loss.
func replaceFile(fsys FS, dir, file string, content []byte) (committed bool, err error) {
	temp := file + tempSuffix
	if err := writeNew(fsys, temp, content); err != nil {
		return false, errors.Join(err, removeIfThere(fsys, temp))
	}
	if err := fsys.Rename(temp, file); err != nil {
		// On a network's file system, a rename that was made may fail, because it was repeated.
		committed, _ = holds(fsys, file, content)
		return committed, errors.Join(fmt.Errorf("store: %w", err), removeIfThere(fsys, temp))
	}
	if err := fsys.SyncDir(dir); err != nil {
		return true, fmt.Errorf("store: %w", err)
	}
	return true, nil
}

// holds reports whether a file has exactly the content.
func holds(fsys FS, file string, content []byte) (bool, error) {
	f, err := openRead(fsys, file)
	if err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	back, err := io.ReadAll(io.LimitReader(f, int64(len(content))+1))
	if err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	return bytes.Equal(back, content), nil
}

func writeNew(fsys FS, file string, content []byte) (err error) {
	f, err := fsys.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("store: %w", cerr)
		}
	}()
	if _, err := f.Write(content); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	f.DropCache()
	same, err := holds(fsys, file, content)
	if err == nil && !same {
		err = unusable(file, "reads back differently from what was written")
	}
	return err
}

func removeIfThere(fsys FS, file string) error {
	if err := fsys.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
