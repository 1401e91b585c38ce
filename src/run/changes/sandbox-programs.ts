/**
 * The two programs that run in the sandbox: one lists the workspace, one sends contents. Both run on any Node version
 * there.
 */
import { CHANGE_LIMITS } from './change-limits.ts'

const { entries, fileBytes, pathBytes } = CHANGE_LIMITS

/** Collects lines, because a write takes as long for one line as for many. */
const OUTPUT = `
let lot = [], size = 0
const flush = () => {
  const all = Buffer.concat(lot)
  lot = []
  size = 0
  return new Promise((done, fail) => process.stdout.write(all, (e) => (e ? fail(e) : done())))
}
const say = (bytes) => {
  lot.push(bytes)
  size += bytes.length
  return size > 262144 ? flush() : undefined
}
const openFile = (path) => fs.openSync(path, C.O_RDONLY | C.O_NOFOLLOW | C.O_NONBLOCK | C.O_NOCTTY)
`

/**
 * Prints one JSON line per file (`f`), link (`l`), other entry (`o`) and unreadable name (`u`). Follows no link and
 * opens no pipe. Lists nothing named `.git` at any depth, because git itself does not store such entries.
 */
export const LIST_PROGRAM = `
const fs = require('node:fs'), crypto = require('node:crypto'), C = fs.constants
${OUTPUT}
const line = (entry) => say(Buffer.from(JSON.stringify(entry) + '\\n'))
const buffer = Buffer.allocUnsafe(1048576)
const digestOf = (fd, bytes) => {
  const read = (at) => fs.readSync(fd, buffer, 0, buffer.length, at)
  let count = read(0)
  if (count === bytes) return crypto.createHash('sha256').update(buffer.subarray(0, count)).digest('hex')
  const hash = crypto.createHash('sha256')
  for (let at = 0; count > 0 && at < ${fileBytes}; count = read(at)) {
    hash.update(buffer.subarray(0, count))
    at += count
  }
  return hash.digest('hex')
}
const fileEntry = (path) => {
  const fd = openFile(path)
  try {
    const found = fs.fstatSync(fd, { bigint: true })
    if (!found.isFile()) return { t: 'o', p: path, k: 'unreadable' }
    const bytes = Number(found.size), x = (Number(found.mode) & 0o100) === 0 ? 0 : 1
    if (bytes > ${fileBytes}) return { t: 'f', p: path, s: bytes, x, m: String(found.mtimeNs) }
    return { t: 'f', p: path, s: bytes, x, h: digestOf(fd, bytes) }
  } finally {
    fs.closeSync(fd)
  }
}
const kindOf = (e) => (e.isFIFO() ? 'pipe' : e.isSocket() ? 'socket' : 'device')
const entryOf = (e, path) => {
  try {
    if (e.isFile()) return fileEntry(path)
    if (!e.isSymbolicLink()) return { t: 'o', p: path, k: kindOf(e) }
    const raw = fs.readlinkSync(path, { encoding: 'buffer' }), target = raw.toString()
    return Buffer.from(target).equals(raw) ? { t: 'l', p: path, to: target } : { t: 'o', p: path, k: 'unreadable' }
  } catch (e) {
    return e.code === 'ENOENT' ? undefined : { t: 'o', p: path, k: 'unreadable' }
  }
}
const main = async () => {
  let count = 0
  const waiting = ['']
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    let found
    try {
      found = fs.readdirSync(at || '.', { withFileTypes: true, encoding: 'buffer' })
    } catch (e) {
      if (at === '') throw e
      if (e.code !== 'ENOENT') await line({ t: 'o', p: at, k: 'unreadable' })
      continue
    }
    for (const e of found) {
      const name = e.name.toString(), path = at + (at && '/') + name
      if (name === '.git') continue
      if (++count > ${entries}) throw new Error('the workspace holds more than ${entries} files')
      if (/\\p{Cc}/u.test(name) || !Buffer.from(name).equals(e.name) || Buffer.byteLength(path) > ${pathBytes})
        await line({ t: 'u', b: Buffer.concat([Buffer.from(at + (at && '/')), e.name]).subarray(-${pathBytes}).toString('base64') })
      else if (e.isDirectory()) waiting.push(path)
      else {
        const entry = entryOf(e, path)
        if (entry !== undefined) await line(entry)
      }
    }
  }
  await flush()
}
main().catch((e) => {
  process.stderr.write(e.message + '\\n')
  process.exitCode = 1
})
`

/** Reads a JSON array of paths. For each it prints a JSON line with its number and length, then that many bytes. */
export const SEND_PROGRAM = `
const fs = require('node:fs'), C = fs.constants
${OUTPUT}
const contentOf = (path) => {
  const fd = openFile(path)
  try {
    const found = fs.fstatSync(fd)
    if (!found.isFile() || found.size > ${fileBytes}) return undefined
    const all = Buffer.allocUnsafe(found.size)
    let at = 0
    for (let n = 1; n > 0 && at < all.length; at += n) n = fs.readSync(fd, all, at, all.length - at, at)
    return at === all.length ? all : undefined
  } finally {
    fs.closeSync(fd)
  }
}
const main = async () => {
  for (const [i, path] of JSON.parse(fs.readFileSync(0, 'utf8')).entries()) {
    let content
    try {
      content = contentOf(path)
    } catch {}
    await say(Buffer.from(JSON.stringify({ i, s: content ? content.length : null }) + '\\n'))
    if (content) await say(content)
  }
  await flush()
}
main().catch((e) => {
  process.stderr.write(e.message + '\\n')
  process.exitCode = 1
})
`
