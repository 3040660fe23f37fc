/** The keys. */
export function Help({ dialog }: { dialog: { current: HTMLDialogElement | null } }) {
  const keys = [
    ['/', 'search'],
    ['Tab', 'into a list of names, and on to the next thing'],
    ['↑, ↓, Page Up, Page Down, Home, End', 'in the list, from name to name'],
    ['Enter', 'open the name; in the search: the name that was typed'],
    ['Esc', 'back to all names'],
    ['p', 'freeze, and go on'],
    ['d', 'dark or light'],
  ]
  return (
    <dialog ref={dialog} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => dialog.current?.close()}>
        Close
      </button>
    </dialog>
  )
}
