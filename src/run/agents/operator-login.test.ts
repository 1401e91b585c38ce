import { describe, expect, it } from 'vitest'
import { inProcessStore } from '../../../test/in-process-store.ts'
import { TestClock } from '../../policy/policy.fixture.ts'
import { activeLogin, logIn, logOut, operatorSubject, requireLogin } from './operator-login.ts'

describe('operator logins', () => {
  it('write a receipt each, at begin and end, under the operator’s own name', async () => {
    const store = inProcessStore(new TestClock())
    await logIn(store, 'operator:ada')
    await logOut(store)
    const bodies = await store.bodies()
    expect(bodies.map(({ kind, operation, operator }) => [kind, operation, operator])).toEqual([
      ['login', 'login', 'operator:ada'],
      ['login', 'logout', 'operator:ada'],
    ])
    expect(bodies[0]!.metadata).toEqual({ issuer: 'local', authenticated: false })
  })

  it('replace each other: another name ends the previous login', async () => {
    const store = inProcessStore(new TestClock())
    await logIn(store, 'operator:ada')
    expect(await logIn(store, 'operator:bob')).toMatchObject({ began: true, replaced: 'operator:ada' })
    expect((await activeLogin(store))?.subject).toBe('operator:bob')
    const ended = (await store.tables.logins.list(10)).filter(({ endedAtMs }) => endedAtMs !== null)
    expect(ended.map(({ subject }) => subject)).toEqual(['operator:ada'])
  })

  it('do nothing when the same name is already logged in', async () => {
    const store = inProcessStore(new TestClock())
    await logIn(store, 'operator:ada')
    expect(await logIn(store, 'operator:ada')).toMatchObject({ began: false, receipt: null })
    expect(await store.bodies()).toHaveLength(1)
  })

  it('cause a login_required error when none exists', async () => {
    const store = inProcessStore(new TestClock())
    const message = 'active operator session required; run craik login'
    await expect(requireLogin(store)).rejects.toMatchObject({ code: 'login_required', message })
    await expect(logOut(store)).rejects.toMatchObject({ code: 'login_required' })
  })

  it('that were edited to name nobody cause an error with a remedy, and can be ended', async () => {
    for (const subject of ['x y', '', 'root', 'operator:', 'operator:a\nb']) {
      const store = inProcessStore(new TestClock())
      await logIn(store, 'operator:ada')
      store.database.prepare('UPDATE logins SET subject = ?').run(subject)
      await expect(activeLogin(store)).rejects.toMatchObject({
        code: 'tampered',
        hint: 'log out:  craik logout   then:  craik login',
      })
      await logOut(store)
      expect(await activeLogin(store)).toBeUndefined()
      expect((await store.bodies()).at(-1)).toMatchObject({ operation: 'logout', operator: 'unknown' })
    }
  })

  it.each(['', 'a b', 'x'.repeat(65), '-x', 'a\nb', 'ghp_abcdefghijklmnopqrstuvwxyz0123456789'])(
    'refuse the name %j',
    (name) => {
      expect(() => operatorSubject(name)).toThrow(expect.objectContaining({ code: 'usage' }))
    },
  )
})
