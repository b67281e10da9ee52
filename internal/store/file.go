package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"runtime"
)

const (
	fileMagic    = "BHCF"
	fileVersion  = 1
	fileHead     = 20       // magic 4, version u16, zero u16, id u64, CRC-32C u32
	blockBytes   = 64 << 10 // content of a block; its CRC-32C follows it
	maxFileBytes = 1 << 50
	tempSuffix   = ".tmp"
	bufferBytes  = 256 << 10 // of files read or written at once
)

// storedBytes returns the size on disk of a file with size bytes of content.
func storedBytes(size int64) int64 {
	return fileHead + size + 4*((size+blockBytes-1)/blockBytes)
}

func fileHeader(id uint64) []byte {
	b := make([]byte, 0, fileHead)
	b = append(b, fileMagic...)
	b = binary.LittleEndian.AppendUint16(b, fileVersion)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint64(b, id)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// blockSum returns the checksum of a block, which covers the file's id and the block's number
// besides the content.
func blockSum(id, block uint64, content []byte) uint32 {
	var place [16]byte
	binary.LittleEndian.PutUint64(place[:], id)
	binary.LittleEndian.PutUint64(place[8:], block)
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, content)
}

// A blockWriter splits its input into checksummed blocks.
type blockWriter struct {
	w     *bufio.Writer // which keeps its first error
	id    uint64
	buf   []byte // the block being filled
	block uint64
	size  int64
	crc   uint32
}

func newBlockWriter(w io.Writer, id uint64) *blockWriter {
	b := &blockWriter{w: bufio.NewWriterSize(w, bufferBytes), id: id, buf: make([]byte, 0, blockBytes+4)}
	_, _ = b.w.Write(fileHeader(id)) // finish returns its error
	return b
}

func (b *blockWriter) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		c := min(len(p)-n, blockBytes-len(b.buf))
		b.buf = append(b.buf, p[n:n+c]...)
		n += c
		if len(b.buf) == blockBytes {
			err = b.flush()
		}
	}
	return n, err
}

// flush writes the block, full or not.
func (b *blockWriter) flush() error {
	b.size += int64(len(b.buf))
	b.crc = crc32.Update(b.crc, castagnoli, b.buf)
	sum := blockSum(b.id, b.block, b.buf)
	_, err := b.w.Write(binary.LittleEndian.AppendUint32(b.buf, sum))
	b.buf, b.block = b.buf[:0], b.block+1
	yield()
	return err
}

// finish writes what is left.
func (b *blockWriter) finish() error {
	if len(b.buf) > 0 {
		if err := b.flush(); err != nil {
			return err
		}
	}
	return b.w.Flush()
}

// yield ends the turn of a goroutine that writes, reads or removes files. A checkpoint has no hurry. Without this, a
// report that becomes due meanwhile may wait until the scheduler ends the turn, after 10 ms.
func yield() { runtime.Gosched() }

// A blockReader returns the content of a checkpoint file, each byte only after its block has been
// checked.
type blockReader struct {
	f    Handle
	path string
	info FileInfo
	buf  []byte // checked but not yet returned
	page []byte
	next int64 // number of the next block
	crc  uint32
}

func newBlockReader(f Handle, path string, info FileInfo) *blockReader {
	return &blockReader{f: f, path: path, info: info, page: make([]byte, blockBytes+4)}
}

// openBlocks opens the stored file and checks its size and header.
func openBlocks(fsys FS, path string, info FileInfo) (*blockReader, error) {
	f, err := openRead(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unusable(path, "the file is missing, and the manifest names it")
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	r := newBlockReader(f, path, info)
	if err := r.open(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *blockReader) open() error {
	st, err := r.f.Stat()
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if want := storedBytes(r.info.Size); st.Size() != want {
		return damaged(r.path, min(st.Size(), want), "the file has %d bytes, want %d", st.Size(), want)
	}
	head := make([]byte, fileHead)
	if _, err := r.f.ReadAt(head, 0); err != nil {
		return fmt.Errorf("store: %s: offset 0: %w", r.path, err)
	}
	if crc32.Checksum(head[:fileHead-4], castagnoli) != binary.LittleEndian.Uint32(head[fileHead-4:]) {
		return unusable(r.path, "header checksum mismatch")
	}
	if v := binary.LittleEndian.Uint16(head[4:]); string(head[:4]) != fileMagic || v != fileVersion {
		return fmt.Errorf("store: %s: %w: %q format %d, this program reads %q format %d", r.path,
			formatOf(string(head[:4]) == fileMagic && v > fileVersion), head[:4], v, fileMagic, fileVersion)
	}
	if id := binary.LittleEndian.Uint64(head[8:]); id != r.info.id {
		return damaged(r.path, 8, "file id %016x, the manifest says %016x", id, r.info.id)
	}
	return nil
}

func (r *blockReader) Read(p []byte) (int, error) {
	if len(r.buf) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

func (r *blockReader) fill() error {
	left := r.info.Size - r.next*blockBytes
	if left <= 0 {
		if r.crc != r.info.CRC {
			return unusable(r.path, "checksum of the content is %08x, the manifest says %08x", r.crc, r.info.CRC)
		}
		return io.EOF
	}
	offset := fileHead + r.next*(blockBytes+4)
	page := r.page[:min(left, blockBytes)+4]
	if _, err := r.f.ReadAt(page, offset); err != nil {
		return fmt.Errorf("store: %s: offset %d: %w", r.path, offset, err)
	}
	content := page[:len(page)-4]
	if blockSum(r.info.id, uint64(r.next), content) != binary.LittleEndian.Uint32(page[len(content):]) {
		return damaged(r.path, offset, "checksum mismatch in block %d of %d", r.next+1, (r.info.Size+blockBytes-1)/blockBytes)
	}
	r.crc = crc32.Update(r.crc, castagnoli, content)
	r.buf = content
	r.next++
	yield()
	return nil
}

// Close closes the file. Blocks that were not read were not checked.
func (r *blockReader) Close() error { return r.f.Close() }
