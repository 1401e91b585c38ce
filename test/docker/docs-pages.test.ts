/** Runs the commands of the documentation pages that need containers, as a reader types them. */
import { describe, expect, it } from 'vitest'
import { docsPages, limitPages } from '../docs/pages.ts'
import { runPage } from '../docs-page.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'

describe.skipIf(ENGINE_IS_NEEDED !== undefined)(
  ENGINE_IS_NEEDED ?? 'docs with containers',
  { concurrent: true },
  () => {
    it.each(docsPages('docker'))(
      '%s',
      limitPages(async (page: string) => {
        expect((await runPage(page)).problems).toEqual([])
      }),
      900_000,
    )
  },
)
