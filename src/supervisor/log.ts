/** The supervisor's log: lines of JSON without payloads or secrets, in files that never grow beyond their number. */
import { closeSync, constants, fchmodSync, openSync, renameSync, statSync, writeSync } from 'node:fs'
import { redactValue } from '../receipts/redaction/redact.ts'

const FILES = 5
const FILE_BYTES = 2 * 1024 * 1024
const MAX_LINE_CHARACTERS = 8 * 1024

type Facts = Readonly<Record<string, string | number | boolean | null | undefined>>
export type SupervisorLog = (level: 'info' | 'warn' | 'error', message: string, facts?: Facts) => void

export interface OpenLog extends Disposable {
  readonly write: SupervisorLog
}

/** `path`, `path.1` … `path.4`, oldest last. A log that cannot be written never stops what it is about. */
export function openSupervisorLog(
  path: string,
  nowMs: () => number,
  { files = FILES, fileBytes = FILE_BYTES } = {},
): OpenLog {
  let file: number | undefined
  let bytes = 0
  const open = () => {
    file = openLogFile(path)
    bytes = statSync(path).size
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

/** For appending; made with mode 0600. */
export function openLogFile(path: string): number {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW
  const file = openSync(path, flags, 0o600)
  fchmodSync(file, 0o600)
  return file
}

function rotate(path: string, files: number): void {
  for (let i = files - 1; i >= 1; i--) {
    try {
      renameSync(i === 1 ? path : `${path}.${i - 1}`, `${path}.${i}`)
    } catch {
      // There are not that many yet.
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
  return Buffer.from(`${line.length > MAX_LINE_CHARACTERS ? shortened(nowMs, level, message) : line}\n`)
}

function shortened(nowMs: number, level: string, message: string): string {
  return JSON.stringify({
    at: new Date(nowMs).toISOString(),
    level,
    message: `${message.slice(0, 200)}…`,
    shortened: true,
  })
}
