import { expect, it } from 'vitest'
import { ADA_USER, EPOCH, hello, LifecycleStore } from '../lifecycle/lifecycle.fixture.ts'
import { sessionScene } from './boundary-session.fixture.ts'
import { JobBook } from './job-book.ts'
import { plainBackend } from './plain-instance.fixture.ts'

it('an ended job is not opened again by a late answer that says that it is open', async () => {
  const fixture = new LifecycleStore()
  const { store, clock } = fixture
  const { id } = await fixture.sandbox()
  await using scene = await sessionScene({ id, epoch: EPOCH })
  const book = new JobBook(
    {
      store,
      clock,
      log: store.log,
      home: store.home,
      backends: { process: plainBackend() },
      logger: () => {},
    },
    () => scene.session,
    () => undefined,
  )
  const request = hello()
  const begun = await fixture.beginAllowed(id, request)
  const job = { id: request.job!.id, operation: 'exec', operator: ADA_USER, begun, adopted: false } as const
  const entry = book.add(job)!
  expect(book.add(job)).toBe(entry)
  const first = book.inTurn(entry, () => book.end(entry, 'failed').then(() => 'ended'))
  const second = book.inTurn(entry, async () => 'done after its end')
  expect([await first, await second]).toEqual(['ended', undefined])
  expect(book.add(job)).toBeUndefined()
  expect([book.size, book.ended]).toEqual([0, 1])
})
