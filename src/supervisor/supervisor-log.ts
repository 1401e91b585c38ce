/** The supervisor's log: lines of JSON without payloads or secrets, in a fixed number of files of limited size. */
import { closeSync, constants, fchmodSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs'
import { CraikError } from '../errors.ts'
import { quoteArgument } from '../lib/shlex.ts'
import { redactValue } from '../receipts/redaction/redact.ts'

const FILES = 5
const FILE_BYTES = 2 * 1024 * 1024
const MAX_LINE_CHARACTERS = 8 * 1024

type Facts = Readonly<Record<string, string | number | boolean | null | undefined>>
export type SupervisorLog = (level: 'info' | 'warn' | 'error', message: string, facts?: Facts) => void

export interface OpenLog extends Disposable {
  readonly write: SupervisorLog
}

/**
 * Writes to `path`. Older lines are in `path.1` to `path.4`, oldest last. If the log cannot be written, the supervisor
 * continues without it.
 */
export function openSupervisorLog(
  path: string,
  nowMs: () => number,
  { files = FILES, fileBytes = FILE_BYTES } = {},
): OpenLog {
  let file: number | undefined
  let bytes = 0
  const open = () => {
    file = openLogFile(path)
    bytes = fstatSync(file).size
  }
  const close = () => {
    if (file !== undefined) closeSync(file)
    file = undefined
  }
  return {
    write(level, message, facts = {}) {
      const line = lineOf(nowMs(), level, message, facts)
      try {
        if (file === undefined) open()
        if (bytes > 0 && bytes + line.length > fileBytes) {
          close()
          rotate(path, files)
          open()
        }
        writeSync(file!, line)
        bytes += line.length
      } catch {
        close()
      }
    },
    [Symbol.dispose]: close,
  }
}

/**
 * Opens the log for appending, and creates it with mode 0600. Refuses a link, a pipe and anything else that is not a
 * regular file.
 */
export function openLogFile(path: string): number {
  const file = openRegular(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT)
  fchmodSync(file, 0o600)
  return file
}

/** Opens the log for reading. Returns `undefined` when it does not exist. */
export function openLogToRead(path: string): number | undefined {
  try {
    return openRegular(path, constants.O_RDONLY)
  } catch (error) {
    if (error instanceof CraikError && (error.cause as NodeJS.ErrnoException)?.code === 'ENOENT')
      return undefined
    throw error
  }
}

function openRegular(path: string, flags: number): number {
  let file: number
  try {
    // O_NONBLOCK, because opening a named pipe would otherwise wait for its other end.
    file = openSync(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o600)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    // The system returns ELOOP for a link, and ENXIO for a pipe that no process reads.
    if (code === 'ELOOP' || code === 'ENXIO') throw notRegular(path, cause)
    throw new CraikError('home_unwritable', `cannot open the supervisor’s log ${path} (${code})`, { cause })
  }
  if (fstatSync(file).isFile()) return file
  closeSync(file)
  throw notRegular(path)
}

function notRegular(path: string, cause?: unknown): CraikError {
  return new CraikError('home_unwritable', `the supervisor’s log ${path} is not a regular file`, {
    hint: `remove it:  rm ${quoteArgument(path)}`,
    cause,
  })
}

function rotate(path: string, files: number): void {
  for (let i = files - 1; i >= 1; i--) {
    try {
      renameSync(i === 1 ? path : `${path}.${i - 1}`, `${path}.${i}`)
    } catch {
      // There are fewer files so far.
    }
  }
}

function lineOf(nowMs: number, level: string, message: string, facts: Facts): Buffer {
  const { value } = redactValue({
    at: new Date(nowMs).toISOString(),
    level,
    message,
    pid: process.pid,
    ...facts,
  })
  const line = JSON.stringify(value)
  return Buffer.from(`${line.length > MAX_LINE_CHARACTERS ? truncateMessage(nowMs, level, message) : line}\n`)
}

function truncateMessage(nowMs: number, level: string, message: string): string {
  return JSON.stringify({
    at: new Date(nowMs).toISOString(),
    level,
    message: `${message.slice(0, 200)}…`,
    shortened: true,
  })
}
