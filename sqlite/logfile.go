package sqlite

import (
	"errors"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// SQLite writes each page of a commit to the write-ahead log with two system
// calls, 24 bytes of header and 4,096 of page, although they all follow one
// another: a quarter of all processor time at batches of 64 events. So the
// writing connection opens its files through a VFS of this name, which is the
// system's own with one change: what is written to the log is gathered, and
// goes to the file in one call when SQLite asks anything else of it, above all
// the sync that ends a commit. An event then costs 5 µs less of 30.
//
// What is durable when does not change. With synchronous=FULL, SQLite syncs the
// log before it tells other connections of a commit, through the index in
// shared memory; it relies on nothing in the log before that, and reads pages
// of its own unfinished transaction through the same handle, which writes them
// first. A write that fails is reported by the call that caused it, and SQLite
// takes that for a failed commit.
//
// The database file must not be gathered in this way: a checkpoint that moves a
// part of the log tells readers so without a sync.
const logVFS = "posthaste"

// logBufferBytes is how much is gathered, some 30 pages. SQLite's write for Unix
// takes less than 128 KiB a call, and mistakes exactly that much for a full disk.
const logBufferBytes = 124 << 10

// vfs is the VFS in SQLite's eyes, with what only we look at behind it. It and
// logFile are read and written by C code, so they lie in C memory and hold no
// Go pointers; offsets in C structs are those of Go structs of the same fields.
type vfs struct {
	lib.Tsqlite3_vfs
	systemOpen      uintptr
	systemFileBytes uintptr
}

// logFile is our part of a handle on a log. It lies behind the system's part,
// and since the methods that SQLite calls are its first field, the handle's
// pointer to its methods is the pointer to it.
type logFile struct {
	lib.Tsqlite3_io_methods
	system uintptr // the system's methods
	buffer uintptr
	begin  int64 // the buffer's place in the file
	filled int64
}

// registerLogVFS makes the VFS known to SQLite, once for the process.
var registerLogVFS = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	system := lib.Xsqlite3_vfs_find(tls, 0)
	if system == 0 {
		return errors.New("SQLite has no file system")
	}
	memory := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(vfs{})))
	if memory == 0 {
		return errOutOfMemory
	}
	name, err := libc.CString(logVFS)
	if err != nil {
		return err
	}
	v := inC[vfs](memory)
	v.Tsqlite3_vfs = *inC[lib.Tsqlite3_vfs](system)
	v.systemOpen, v.FxOpen = v.FxOpen, cFunc(openFile)
	v.systemFileBytes = (uintptr(v.FszOsFile) + 7) &^ 7
	v.FszOsFile = int32(v.systemFileBytes + unsafe.Sizeof(logFile{}))
	v.FpNext, v.FzName = 0, name
	if rc := lib.Xsqlite3_vfs_register(tls, memory, 0); rc != lib.SQLITE_OK {
		return errors.New("SQLite does not take the log's file system")
	}
	return nil
})

var errOutOfMemory = errors.New("out of memory")

// The C functions that we call or stand in for.
type (
	cOpen    func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	cClose   func(tls *libc.TLS, file uintptr) int32
	cReadAt  func(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32
	cResize  func(tls *libc.TLS, file uintptr, size int64) int32
	cSync    func(tls *libc.TLS, file uintptr, flags int32) int32
	cSize    func(tls *libc.TLS, file, size uintptr) int32
	cControl func(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32
)

//nolint:revive // the parameters are SQLite's
func openFile(tls *libc.TLS, pVFS, name, file uintptr, flags int32, outFlags uintptr) int32 {
	v := inC[vfs](pVFS)
	rc := goFunc[cOpen](v.systemOpen)(tls, pVFS, name, file, flags, outFlags)
	if rc != lib.SQLITE_OK || flags&lib.SQLITE_OPEN_WAL == 0 {
		return rc
	}
	buffer := libc.Xmalloc(tls, logBufferBytes)
	if buffer == 0 {
		return rc // it works without, only slower
	}
	handle := inC[lib.Tsqlite3_file](file)
	l := inC[logFile](file + v.systemFileBytes)
	*l = logFile{Tsqlite3_io_methods: *inC[lib.Tsqlite3_io_methods](handle.FpMethods), system: handle.FpMethods, buffer: buffer}
	l.FxClose, l.FxRead, l.FxWrite = cFunc(closeLog), cFunc(readLog), cFunc(writeLog)
	l.FxTruncate, l.FxSync, l.FxFileSize, l.FxFileControl = cFunc(resizeLog), cFunc(syncLog), cFunc(sizeLog), cFunc(controlLog)
	handle.FpMethods = file + v.systemFileBytes
	return rc
}

// logOf returns our part of a handle, and the system's methods.
func logOf(file uintptr) (*logFile, *lib.Tsqlite3_io_methods) {
	l := inC[logFile](inC[lib.Tsqlite3_file](file).FpMethods)
	return l, inC[lib.Tsqlite3_io_methods](l.system)
}

func writeLog(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32 {
	l, system := logOf(file)
	if l.filled > 0 && (at != l.begin+l.filled || l.filled+int64(n) > logBufferBytes) {
		if rc := flushLog(tls, file); rc != lib.SQLITE_OK {
			return rc
		}
	}
	if n > logBufferBytes {
		return goFunc[cReadAt](system.FxWrite)(tls, file, buf, n, at)
	}
	if l.filled == 0 {
		l.begin = at
	}
	copy(cBytes(l.buffer+uintptr(l.filled), n), cBytes(buf, n))
	l.filled += int64(n)
	return lib.SQLITE_OK
}

// flushLog writes what was gathered. If that fails it is gone all the same: the
// transaction that it belongs to fails, and a later one begins at the same place.
func flushLog(tls *libc.TLS, file uintptr) int32 {
	l, system := logOf(file)
	n := l.filled
	if n == 0 {
		return lib.SQLITE_OK
	}
	l.filled = 0
	return goFunc[cReadAt](system.FxWrite)(tls, file, l.buffer, int32(n), l.begin)
}

func readLog(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32 {
	if rc := flushLog(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	_, system := logOf(file)
	return goFunc[cReadAt](system.FxRead)(tls, file, buf, n, at)
}

func resizeLog(tls *libc.TLS, file uintptr, size int64) int32 {
	if rc := flushLog(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	_, system := logOf(file)
	return goFunc[cResize](system.FxTruncate)(tls, file, size)
}

func syncLog(tls *libc.TLS, file uintptr, flags int32) int32 {
	if rc := flushLog(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	_, system := logOf(file)
	return goFunc[cSync](system.FxSync)(tls, file, flags)
}

func sizeLog(tls *libc.TLS, file, size uintptr) int32 {
	if rc := flushLog(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	_, system := logOf(file)
	return goFunc[cSize](system.FxFileSize)(tls, file, size)
}

func controlLog(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32 {
	if rc := flushLog(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	_, system := logOf(file)
	return goFunc[cControl](system.FxFileControl)(tls, file, op, arg)
}

// closeLog gives the handle back to the system. What was gathered and never
// synced was of no commit.
func closeLog(tls *libc.TLS, file uintptr) int32 {
	l, system := logOf(file)
	libc.Xfree(tls, l.buffer)
	inC[lib.Tsqlite3_file](file).FpMethods = l.system
	return goFunc[cClose](system.FxClose)(tls, file)
}

// inC is the C struct at an address.
func inC[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// cBytes is n bytes of C memory.
func cBytes(address uintptr, n int32) []byte { return unsafe.Slice(inC[byte](address), n) }

// cFunc is a Go function as the C code, which is Go code translated from C,
// holds it: as the address of the function value. It works for declared
// functions, whose values never move.
func cFunc[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

// goFunc is the opposite of cFunc.
func goFunc[F any](address uintptr) F {
	return *(*F)(unsafe.Pointer(&struct{ address uintptr }{address}))
}
