/**
 * Runs the commands of the tutorials, the how-to pages and the README, as a reader types them. Pages that need
 * containers are in test/docker.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { docsPages, limitPages } from '../docs/pages.ts'
import { runPage } from '../docs-page.ts'
import { tempFolder } from '../temp-folder.ts'

describe.concurrent('docs', () => {
  it.each(docsPages('process'))(
    '%s',
    limitPages(async (page) => {
      expect((await runPage(page)).problems).toEqual([])
    }),
    900_000,
  )

  it(
    'a wrong page fails',
    limitPages(async () => {
      const page = join(tempFolder('craik-docs-'), 'wrong.md')
      const commands = [
        '$ cat README.md',
        '# Shop',
        'Prices for a big shop.',
        '$ false',
        '$ craik sandbox create --name shop --workspace .',
        '  sandbox  shop · process (bubblewrap) · no network · 0.2 s · copied 36 files',
        '  next     craik sandbox enter shop',
        '$ craik sandbox exec shop -- sh -c "echo one; echo two; exit 3"',
        'two',
        'one',
        '# exit 4',
      ]
      writeFileSync(page, ['# Wrong', '```console', ...commands, '```', ''].join('\n'))
      const { problems } = await runPage(page)
      expect(problems.map((problem) => problem.split('\n').slice(0, 2))).toEqual([
        [`${page}:3: the output has no line (in this order)`, '    Prices for a big shop.'],
        [`${page}:6: exit code 1 instead of 0`, '  $ false'],
        [`${page}:7: the output has no line (in this order)`, '    next     craik sandbox enter shop'],
        [`${page}:10: the output has no line (in this order)`, '    one'],
        [`${page}:10: exit code 3 instead of 4`, expect.any(String)],
      ])
    }),
  )
})
