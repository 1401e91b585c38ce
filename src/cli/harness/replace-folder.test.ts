import { beforeEach, describe, expect, it } from 'vitest'
import { CraikError } from '../../errors.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { replaceFolder } from './replace-folder.ts'

const PATHS = { target: 'bin/kimi', coming: 'bin/.kimi-new', going: 'bin/.kimi-old' }

describe('replaceFolder', () => {
  let folders: Map<string, string>
  let stop: AbortController
  /** Called before each change of a file. */
  let onChange: (change: string) => void
  let client: ApiClient
  beforeEach(() => {
    folders = new Map([
      [PATHS.target, 'version 1'],
      [PATHS.coming, 'version 2'],
    ])
    stop = new AbortController()
    onChange = () => {}
    const change = (name: string, work: () => void) => async () => {
      onChange(name)
      work()
    }
    client = {
      files: {
        async stat(_: string, path: string, { signal }: { signal?: AbortSignal } = {}) {
          signal?.throwIfAborted()
          if (!folders.has(path)) throw new CraikError('not_found', path)
          return { type: 'folder' }
        },
        move: (_: string, from: string, to: string, { signal }: { signal?: AbortSignal } = {}) =>
          change(`move ${from} ${to}`, () => {
            signal?.throwIfAborted()
            folders.set(to, folders.get(from)!)
            folders.delete(from)
          })(),
        remove: (_: string, path: string) => change(`remove ${path}`, () => folders.delete(path))(),
      },
    } as unknown as ApiClient
  })

  const replace = () => replaceFolder(client, 'box', PATHS, stop.signal)

  it('leaves only the new folder', async () => {
    await replace()
    expect([...folders]).toEqual([[PATHS.target, 'version 2']])
  })

  it('works when there is no previous folder', async () => {
    folders.delete(PATHS.target)
    await replace()
    expect([...folders]).toEqual([[PATHS.target, 'version 2']])
  })

  it('gives the previous folder its name again if the new one cannot get it', async () => {
    onChange = (change) => {
      if (change === `move ${PATHS.coming} ${PATHS.target}`) throw new CraikError('disk_full', 'full')
    }
    await expect(replace()).rejects.toMatchObject({ code: 'disk_full' })
    expect([...folders]).toEqual([[PATHS.target, 'version 1']])
  })

  it('gives the previous folder its name again after Ctrl-C', async () => {
    onChange = (change) => {
      if (change === `move ${PATHS.coming} ${PATHS.target}`) stop.abort(new CraikError('interrupted', ''))
    }
    await expect(replace()).rejects.toMatchObject({ code: 'interrupted' })
    expect([...folders]).toEqual([[PATHS.target, 'version 1']])
  })

  it('removes the previous folder if the answer that the new one got its name was lost', async () => {
    const move = client.files.move
    client.files.move = async (sandbox, from, to, options) => {
      await move(sandbox, from, to, options)
      if (from === PATHS.coming) throw new CraikError('interrupted', '')
    }
    await expect(replace()).rejects.toMatchObject({ code: 'interrupted' })
    expect([...folders]).toEqual([[PATHS.target, 'version 2']])
  })
})
