/** Tests the messages about transcripts that were not read. */
import { expect, it } from 'vitest'
import { SkippedContent } from './skipped-content.ts'

it('prints a line for each reason, with the first file and the number of others, and counts each file once', () => {
  const skipped = new SkippedContent()
  skipped.problem('.codex', 'is a symbolic link; Craik does not follow it')
  for (const name of ['a', 'b', 'c', 'b'])
    skipped.passedOver({ harness: 'codex', path: `sessions/${name}`, reason: 'is a pipe' })
  expect(skipped.lines()).toBe(
    'craik: .codex is a symbolic link; Craik does not follow it\ncraik: sessions/a was skipped: it is a pipe (and 2 more)\n',
  )
})

it('prints a few lines for any number of reasons, without control characters from names', () => {
  const skipped = new SkippedContent()
  for (let at = 0; at < 2000; at++) skipped.problem(`\x1b[31m${at}`, `has problem ${at}`)
  expect(skipped.lines().split('\n')).toHaveLength(7)
  expect(skipped.lines()).toContain('more like this\n')
  expect(skipped.lines()).not.toContain('\x1b')
})

it('prints nothing if nothing was skipped', () => {
  expect(new SkippedContent().lines()).toBe('')
})
