/** What is told of transcripts that were not read: a line for each reason, however many there are. */
import { expect, it } from 'vitest'
import { SkippedContent } from './skipped-content.ts'

it('is a line for each reason with the first file and how many more, once each', () => {
  const skipped = new SkippedContent()
  skipped.problem('.codex', 'is a symbolic link; Craik does not follow it')
  for (const name of ['a', 'b', 'c', 'b'])
    skipped.passedOver({ harness: 'codex', path: `sessions/${name}`, reason: 'is a pipe' })
  expect(skipped.lines()).toBe(
    'craik: .codex is a symbolic link; Craik does not follow it\ncraik: sessions/a was skipped: it is a pipe (and 2 more)\n',
  )
})

it('is a few lines of however many reasons, with no control character of a name', () => {
  const skipped = new SkippedContent()
  for (let at = 0; at < 2000; at++) skipped.problem(`\x1b[31m${at}`, `has problem ${at}`)
  expect(skipped.lines().split('\n')).toHaveLength(7)
  expect(skipped.lines()).toContain('more like this\n')
  expect(skipped.lines()).not.toContain('\x1b')
})

it('is nothing when there is nothing', () => {
  expect(new SkippedContent().lines()).toBe('')
})
