import { describe, expect, it } from 'vitest'
import { ErrorLines, jobFailure } from './job-failure.ts'

const FAILED = { outcome: 'exited', exitCode: 2, signal: null } as Parameters<typeof jobFailure>[2]

describe('the stderr of tar', () => {
  it('is summarized by its first line that reports an error', () => {
    const complaints = new ErrorLines()
    complaints.push(Buffer.from('tar: a/s: socket ignored\ntar: b: Cannot '))
    complaints.push(Buffer.from('open\ntar: c: Cannot open\n'))
    expect(jobFailure('packing', 'parser', FAILED, complaints)?.message).toContain('tar: b: Cannot open')
  })

  it('names each socket that tar skipped, however the lines are split', () => {
    const complaints = new ErrorLines()
    for (const byte of Buffer.from('tar: a/s: socket ignored\n/bin/tar: t: socket ignored\n'))
      complaints.push(Buffer.from([byte]))
    expect(complaints.ignored).toEqual(['"a/s" (socket)', '"t" (socket)'])
    expect(complaints.first).toBeUndefined()
  })

  it('is stored up to a limit, but counted completely', () => {
    const complaints = new ErrorLines()
    for (let i = 0; i < 1000; i++) complaints.push(Buffer.from(`tar: s${i}: socket ignored\n`))
    expect([complaints.ignored.length, complaints.ignoredCount]).toEqual([100, 1000])
  })
})
