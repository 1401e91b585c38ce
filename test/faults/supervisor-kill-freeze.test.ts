/** A stall is reported with the name and the position of the part that stalled. */
import { describe, expect, it } from 'vitest'
import { processesBelow, watchForStall } from './supervisor-kill-freeze.ts'

const quick = { lookMs: 2, evidence: () => 'what else there is' }
const never = new Promise<never>(() => {})

describe('a stall', () => {
  it('is reported with the name of the part that does not move and the position of every part', async () => {
    let count = 0
    const parts = [
      { name: 'the copy', done: never, where: () => 'at byte 7' },
      { name: 'the commands', done: never, where: () => `number ${count++}` },
      { name: 'the killer', done: Promise.resolve(), where: () => 'killed 20' },
    ]
    const until = new AbortController()
    const reported = watchForStall(parts, { ...quick, until: until.signal, limitMs: 60_000, stillMs: 50 })
    await expect(reported).rejects.toThrow(
      /^the copy stands still\nthe copy has not moved for \d+ s: at byte 7\nthe commands has .*: number \d+\nthe killer is over: killed 20\nwhat else there is$/,
    )
  })

  it('is reported for a part that moves and never ends', async () => {
    let count = 0
    const parts = [{ name: 'the commands', done: never, where: () => `number ${count++}` }]
    const reported = watchForStall(parts, { ...quick, until: new AbortController().signal, limitMs: 50 })
    await expect(reported).rejects.toThrow(/^not at its end after 0 s\nthe commands has not moved for/)
  })

  it('is not reported when every part has ended', async () => {
    const until = new AbortController()
    const parts = [{ name: 'the copy', done: Promise.resolve(), where: () => 'at its end' }]
    const reported = watchForStall(parts, { ...quick, until: until.signal, limitMs: 60_000, stillMs: 5 })
    setTimeout(() => until.abort(), 50)
    await expect(reported).resolves.toBeUndefined()
  })

  it('shows processes that have one of the names in their command line or environment', () => {
    expect(processesBelow([`nothing has this name ${process.pid}`])).toBe('')
    expect(processesBelow([''])).toMatch(/^process \d+ \(\w, in \w+/)
  })
})
